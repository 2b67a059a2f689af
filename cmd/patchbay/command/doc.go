// Package command has what the commands of patchbay share: the interface of a command, its
// console and common flags, files and terminals, tables, sources of requests, drawing,
// times, and completion.
package command
