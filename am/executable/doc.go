// Package executable runs providers and hooks: in a process group of their own, with a
// deadline, an environment that holds nothing of the server's, and bounded time for
// what they leave behind.
package executable
