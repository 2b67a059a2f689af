// Package program builds our programs, runs them, and creates sites with them, for tests.
package program
