// Package authority has the commands for the users and slices of a trial authority: user, slice,
// delegate, tool and authority.
package authority
