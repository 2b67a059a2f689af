// Package display formats counts, times, durations, sizes, untrusted text and
// command lines for people, and suggests known words for misspelled ones.
package display
