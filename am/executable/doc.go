// Package executable runs providers and hooks with a deadline, in a process group
// and an environment of their own.
package executable
