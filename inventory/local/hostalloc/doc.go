// Package hostalloc allocates numbers that are unique on this host: user ids,
// ports and networks. Each claim is a symbolic link that leads nowhere: its name
// is the number and its text says whose it is. So it is made whole or not at all,
// outlives everything, and can be read by ls -l. A released port rests before it
// is given out again, unless no other is left.
//
// A holder is INSTANCE/NODE; what an instance needs for itself is INSTANCE:WHAT.
// Only root may write in the folders. What stands there and is no claim is told
// and never given out.
//
// # Decisions
//
//   - claims: a symbolic link with the number as name and the holder as text. It exists whole or
//     not at all: [Folder.Allocate].
package hostalloc
