// Package ownsite creates, serves and removes the site of an experimenter who names no other one.
// Site says where it is, and who owns its files under sudo.
package ownsite
