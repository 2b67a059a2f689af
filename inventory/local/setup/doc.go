// Package setup is what runs inside a node to install and execute what a request
// asks for: it fetches and unpacks archives, runs commands, and keeps what came of
// them until the testbed asks.
package setup
