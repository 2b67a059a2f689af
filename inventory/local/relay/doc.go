// Package relay carries frames between the ends of a link that the kernel alone
// cannot make: it is a switch of TAP devices in a process without rights, which
// delays frames, loses some and holds some back, as the link's properties say.
package relay
