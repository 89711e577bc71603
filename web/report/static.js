'use strict';
// The only thing the experiments' pages need a script for.
themeToggle(document.getElementById('theme')).hidden = false;
