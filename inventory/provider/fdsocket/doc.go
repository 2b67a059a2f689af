// Package fdsocket carries JSON messages and open files over Unix sockets, between
// processes that do not trust each other. So the receiver limits the
// bytes and the files of each message, and gets no more files than it expects.
//
// A message is its length (four bytes, big endian) and the JSON text; files
// come with the first byte of the length.
package fdsocket
