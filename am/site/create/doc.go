// Package create makes a new site in a folder: its configuration, its inventory, a
// provider, the server's certificates, a private trial authority, and a sample of a
// request and of a policy.
package create
