// Package file writes files so that a crash or a loss of power leaves the old or the new
// content, and with the rights of the owner of their folder, also if root runs the program.
// So a site's user can use its files, and no link there leads root to a file that this
// user could not write. It also locks files.
package file
