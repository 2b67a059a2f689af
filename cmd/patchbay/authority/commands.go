package authority

import "patchbay/cmd/patchbay/command"

// Commands returns the commands that are for the users and slices of the trial authority.
func Commands() []command.Command {
	return []command.Command{
		{Use: "user NAME …", Short: "Create users of the trial authority", Long: userLong, Options: &userOptions{}, Arguments: command.SomeOf(), Example: `  patchbay user alice
  patchbay user alice --renew`},
		{Use: "slice NAME --owner USER", Short: "Create a slice of the trial authority", Long: sliceLong, Options: &sliceOptions{}, Arguments: command.SomeOf(), Example: `  patchbay slice first --owner alice
  patchbay slice first --owner alice --expires 90d`},
		{Use: "delegate SLICE --from USER --to RECEIVER", Short: "Delegate a slice to another user or tool", Long: delegateLong, Options: &delegateOptions{}, Arguments: (*command.Completion).OwnedSlices, Example: `  patchbay delegate first --from alice --to bob`},
		{Use: "tool NAME [--for USER]", Short: "Create a tool, which may speak for a user", Long: toolLong, Options: &toolOptions{}, Arguments: command.SomeOf(), Example: `  patchbay tool portal
  patchbay tool portal --for alice`},
		{Use: "authority ACTION", Short: "Manage members, slices and invitations", Long: authorityLong, Options: &authorityOptions{}, Arguments: command.SomeOf(authorityActions...), Example: `  patchbay authority members
  patchbay authority invite carol
  patchbay authority slices
  patchbay authority role lab1 carol ADMIN
  patchbay authority project course --lead carol
  patchbay authority remove carol`},
	}
}
