// Package check explains what is wrong with a site, or with a file of any kind that
// belongs to one, and what to do about it. It changes nothing.
package check
