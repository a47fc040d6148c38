// A page that goes elsewhere before anybody can initialise it.
location.replace(new URLSearchParams(location.search).get('to'));
