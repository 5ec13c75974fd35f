"""What is to be computed: operators out of files, their shapes and names, and sources read as trees."""
