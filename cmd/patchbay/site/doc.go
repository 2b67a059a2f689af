// Package site has the commands that set up and maintain a site: init, serve, check, reload,
// backup, restore and move.
package site
