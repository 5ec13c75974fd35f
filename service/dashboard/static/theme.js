"use strict";
// Runs before the page is drawn, so that the dark theme does not start with a light flash.
document.documentElement.classList.add("scripted");
const chosenTheme = localStorage.getItem("reef-theme");
if (chosenTheme === "light" || chosenTheme === "dark") document.documentElement.dataset.theme = chosenTheme;
