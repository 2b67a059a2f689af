// Package fdsocket carries JSON messages and open files over Unix sockets, between
// processes that do not trust each other. Both sides may be hostile to each other:
// every receipt is bounded in bytes and in files, and no file comes that was not
// asked for.
//
// A message is its length (four bytes, big endian) and the JSON text; files
// come with the first byte of the length.
package fdsocket
