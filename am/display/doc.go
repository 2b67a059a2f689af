// Package display formats counts, times, durations, sizes, untrusted text and
// command lines for people.
package display
