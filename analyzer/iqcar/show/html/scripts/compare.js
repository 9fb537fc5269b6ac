// Starting the page of a comparison: all else in it needs no program.
startLook();
startSections();
document.documentElement.dataset.ready = 'yes';
