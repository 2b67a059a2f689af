// Package display shows values to people: counts, times, durations, sizes, text of
// strangers, and command lines that may be copied into a shell.
package display
