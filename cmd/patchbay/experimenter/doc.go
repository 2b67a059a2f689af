// Package experimenter has the commands of experimenters: up, ssh, status, extend, export, share,
// login and down for their own experiments, call for any aggregate, and demo.
package experimenter
