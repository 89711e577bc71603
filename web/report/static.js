'use strict';
// The only thing that the pages written whole need a script for.
themeToggle(document.getElementById('theme')).hidden = false;
