// Package hostalloc allocates numbers that are unique on this host: user ids,
// ports and networks. Each claim is a dangling symbolic link: its name is the
// number and its text is the holder. So a claim is created atomically, remains when
// the program ends, and can be read with ls -l. A released port rests, which means
// that it is not given out for some time, unless no other port is free.
//
// A holder is INSTANCE/NODE, or INSTANCE:WHAT for the instance itself. Only root
// may write in the folders. A file there that is no claim is reported, and the number in
// its name is never given out.
//
// # Decisions
//
//   - claims: a symbolic link with the number as name and the holder as text. It exists whole or
//     not at all: [Folder.Allocate].
package hostalloc
