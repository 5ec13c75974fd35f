"use strict";
// Runs before the page is drawn, so that nobody who chose dark sees a flash of light.
document.documentElement.classList.add("scripted");
const chosenTheme = localStorage.getItem("reef-theme");
if (chosenTheme === "light" || chosenTheme === "dark") document.documentElement.dataset.theme = chosenTheme;
