// Package create makes a new site in a folder.
package create
