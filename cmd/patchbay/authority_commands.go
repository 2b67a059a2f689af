package main

// authorityCommands returns the commands that are for the users and slices of the trial authority.
func authorityCommands() []command {
	return []command{
		{Use: "user NAME …", Short: "Create users of the trial authority", Long: userLong, Options: &userOptions{}, Arguments: someOf(), Example: `  patchbay user alice
  patchbay user alice --renew`},
		{Use: "slice NAME --owner USER", Short: "Create a slice of the trial authority", Long: sliceLong, Options: &sliceOptions{}, Arguments: someOf(), Example: `  patchbay slice first --owner alice
  patchbay slice first --owner alice --expires 90d`},
		{Use: "delegate SLICE --from USER --to RECEIVER", Short: "Delegate a slice to another user or tool", Long: delegateLong, Options: &delegateOptions{}, Arguments: (*completion).ownedSlices, Example: `  patchbay delegate first --from alice --to bob`},
		{Use: "tool NAME [--for USER]", Short: "Create a tool, which may speak for a user", Long: toolLong, Options: &toolOptions{}, Arguments: someOf(), Example: `  patchbay tool portal
  patchbay tool portal --for alice`},
		{Use: "authority ACTION", Short: "Manage members, slices and invitations", Long: authorityLong, Options: &authorityOptions{}, Arguments: someOf(authorityActions...), Example: `  patchbay authority members
  patchbay authority invite carol
  patchbay authority slices
  patchbay authority role lab1 carol ADMIN
  patchbay authority project course --lead carol
  patchbay authority remove carol`},
	}
}
