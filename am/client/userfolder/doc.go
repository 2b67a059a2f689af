// Package userfolder reads and writes the folders of users: certificates, keys, credentials, the
// aggregate of the user, and the configuration of omni. Trial writes them for the users of a
// site's trial authority.
package userfolder
