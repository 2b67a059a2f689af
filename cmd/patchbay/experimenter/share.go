package experimenter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/client"
	"patchbay/am/client/session"
	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/urn"
	"patchbay/cmd/patchbay/command"
	"patchbay/credentials/trial"
)

const shareLong = `Share a slice with a partner: they may use the slice until your credential for it ends,
and they get a login on its nodes with their own SSH key.

PARTNER is a user of your site, or a member of the authority where you have logged in. For
nodes that you add later, and for a longer time, repeat the command. "patchbay delegate"
only lends the slice, also to tools and to users of other authorities.`

type shareOptions struct {
	experimenterFlags
	slice, partner string
}

func (o *shareOptions) AddFlags(fs *pflag.FlagSet) { o.experimenterFlags.AddFlags(fs) }

func (o *shareOptions) Validate(args []string) error {
	if len(args) != 2 {
		return errors.New("it takes the name of a slice and of your partner: patchbay share SLICE PARTNER")
	}
	o.slice, o.partner = args[0], args[1]
	return errors.Join(trial.CheckSlice(o.slice), trial.CheckUser(o.partner))
}

func (o *shareOptions) Run(ctx context.Context, c command.Console) error {
	s, err := o.openLocked(ctx, c, false)
	if err != nil {
		return err
	}
	defer s.Close()
	x, err := s.OpenSlice(ctx, o.slice, 0, false)
	if err != nil {
		return err
	}
	var partner client.User
	isOfSite := s.Trial != nil && isSameFolder(s.Dir, userfolder.Path(s.Trial.Dir, s.UserName()))
	if isOfSite {
		partner, err = s.shareAtSite(ctx, o.slice, o.partner)
	} else {
		partner, err = s.shareAtAuthority(ctx, o.slice, o.partner)
	}
	if err != nil {
		return err
	}
	hasNodes, err := addLogin(ctx, x, partner)
	if err != nil {
		return fmt.Errorf("%s may use the slice %s, but has no login on its nodes yet: %w", o.partner, o.slice, s.Explain(err))
	}
	if hasNodes {
		fmt.Fprintf(c.Out, "%s may use the slice %s, and has a login on its nodes.\n", o.partner, o.slice)
	} else {
		fmt.Fprintf(c.Out, "%s may use the slice %s. It has no nodes yet; repeat the command when it has some.\n", o.partner, o.slice)
	}
	if isOfSite {
		fmt.Fprintf(c.Out, "\n%s sees the nodes and the logins with:\n  %s\n", o.partner, display.CommandAt(s.Config.Origin.File, "status", "--user", o.partner))
		return nil
	}
	fmt.Fprintf(c.Out, "\n%s gets the credential, and then sees the nodes and the logins, with:\n  %s\n  %s\n", o.partner,
		display.Command("login", "--dir", "FOLDER", "--slice", o.slice), display.Command("status", "--user", "FOLDER"))
	return nil
}

func isSameFolder(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// shareAtSite delegates a slice to the partner, a user of this site, unless the partner is one of its
// owners. It returns the partner's URN and SSH keys.
func (s *opened) shareAtSite(ctx context.Context, name, partner string) (client.User, error) {
	unlock, err := userfolder.Lock(ctx, s.Trial.Dir, s.Err)
	if err != nil {
		return client.User{}, err
	}
	defer unlock()
	u, err := s.Trial.ExistingUser(partner)
	if err != nil {
		return client.User{}, err
	}
	text, err := site.ReadRegular(u.CredentialFile(name))
	if isOwner := err == nil && !userfolder.IsDelegated(text); !isOwner {
		d := userfolder.Delegation{Slice: name, From: s.UserName(), To: u.Name}
		if _, _, _, err := s.Trial.Delegate(&d); err != nil {
			return client.User{}, err
		}
	}
	return session.UserFromFolder(u.Dir)
}

// shareAtAuthority makes the partner a member of the slice, at the authority where the user has logged
// in. It returns the partner's URN and SSH keys.
func (s *opened) shareAtAuthority(ctx context.Context, name, partner string) (u client.User, err error) {
	x, err := session.OpenAuthority(s.Dir)
	if err != nil {
		return u, err
	}
	if x == nil {
		return u, errors.New("only slices of a trial authority can be shared; delegate other slices with the tools of their authority")
	}
	defer x.Close()
	u.URN = urn.URN{Authority: x.User.Authority, Type: urn.User, Name: partner}.String()
	v, err := x.MemberAuthority.CallAuthority(ctx, "lookup", "KEY", session.NoCredentials, xmlrpc.Struct{{Name: "match", Value: xmlrpc.Struct{{Name: "KEY_MEMBER", Value: u.URN}}}})
	if err != nil {
		return u, err
	}
	records, _ := v.(xmlrpc.Struct)
	for _, r := range records {
		record, _ := r.Value.(xmlrpc.Struct)
		key, _ := record.Get("KEY_PUBLIC")
		text, _ := xmlrpc.AsString(key)
		lines, err := trial.ParseSSHKeys([]byte(text))
		if err != nil {
			return u, fmt.Errorf("an SSH key of %s: %w", partner, err)
		}
		u.Keys = append(u.Keys, strings.Split(strings.TrimSpace(string(lines)), "\n")...)
	}
	if len(u.Keys) == 0 {
		return u, fmt.Errorf("the authority knows no SSH key of %s; is the name right, and has %s logged in?", partner, partner)
	}
	slice := urn.URN{Authority: x.User.Authority, Type: urn.Slice, Name: name}
	_, err = x.SliceAuthority.CallAuthority(ctx, "modify_membership", "SLICE", slice.String(), session.NoCredentials, xmlrpc.Struct{{Name: "members_to_add", Value: []xmlrpc.Value{
		xmlrpc.Struct{{Name: "SLICE_MEMBER", Value: u.URN}, {Name: "SLICE_ROLE", Value: "MEMBER"}},
	}}})
	if refused, ok := errors.AsType[*client.AuthorityError](err); ok && refused.Code == client.DuplicateCode { // a member already, with another role
		err = nil
	}
	return u, err
}

// addLogin creates the partner's account on all nodes of the slice, and waits until it exists. Nodes that begin later do not
// count: hasNodes is false if there are no others.
func addLogin(ctx context.Context, x *session.Slice, partner client.User) (hasNodes bool, err error) {
	all := []string{x.Slice}
	a, err := x.Describe(ctx)
	if err != nil || len(waiting(a.Slivers)) == len(a.Slivers) {
		return false, err
	}
	if _, _, err := x.Client.PerformOperationalAction(ctx, all, x.Credentials, string(am.ActionUpdateUsers), client.Options{Users: []client.User{partner}}); err != nil {
		return true, err
	}
	_, err = client.Wait(ctx, x.Client.StatusOf(all, x.Credentials), wantedStates[string(am.ActionUpdateUsers)], func([]client.Sliver) {})
	return true, err
}
