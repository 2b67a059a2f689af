// Package claim holds numbers that are unique on this host, over all instances
// of the testbed: ranges of user ids, and ports. Each claim is a file, so that it
// outlives everything; a released port rests before it is given out again.
package claim
