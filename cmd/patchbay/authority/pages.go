package authority

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"patchbay/am/authority"
	"patchbay/am/client/session"
	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/cmd/patchbay/command"
)

// printLink prints a link for one user.
func (o *userOptions) printLink(t *userfolder.Trial, c command.Console) error {
	link, err := t.Link(o.Names[0], 0)
	if err != nil {
		return needsServer(t, err)
	}
	fmt.Fprintln(c.Out, display.Line(link.URL))
	fmt.Fprintf(c.Err, "The link works once, until %s. An earlier link of %s no longer works.\n", command.TimeAndDistance(link.Ends, time.Now()), o.Names[0])
	return nil
}

// needsServer adds the command that starts the site to ErrNotServed.
func needsServer(t *userfolder.Trial, err error) error {
	if !errors.Is(err, site.ErrNotServed) {
		return err
	}
	return fmt.Errorf("%w, so it has no pages; start it with: %s", err, session.ServeCommand(t.Config.Origin.File))
}

// preparePages finds what would make makePages fail, before anything is created. It returns the class with the
// teacher of --lead.
func (o *userOptions) preparePages(ctx context.Context, t *userfolder.Trial, class []classUser, c command.Console) ([]classUser, error) {
	if o.Links != "" {
		if _, err := os.Lstat(o.Links); err == nil {
			return nil, fmt.Errorf("--links: %s exists; name a new file", o.Links)
		}
		if !site.IsServed(ctx, t.Config) {
			return nil, needsServer(t, fmt.Errorf("--links: %w", site.ErrNotServed))
		}
	}
	if o.Request == "" {
		return class, nil
	}
	var err error
	if o.request, err = command.ReadInput(o.Request); err != nil {
		return nil, fmt.Errorf("--request: %w", err)
	}
	if len(o.request) > authority.MaxRequest {
		return nil, fmt.Errorf("--request: %s has %d bytes, more than %d", o.Request, len(o.request), authority.MaxRequest)
	}
	if err := new(command.SourceFlags).CheckText(c, o.Request, o.request); err != nil {
		return nil, err
	}
	isLead := func(m classUser) bool { return strings.EqualFold(m.name, o.Lead) }
	if o.Lead != "" && !slices.ContainsFunc(class, isLead) {
		class = slices.Insert(class, 0, classUser{place: "--lead", name: o.Lead})
	}
	return class, nil
}

// makePages makes the project of --request, and the links of --links.
func (o *userOptions) makePages(t *userfolder.Trial, class []classUser, c command.Console) error {
	if o.Request != "" {
		lead, names := cmp.Or(o.Lead, class[0].name), []string{}
		for _, m := range class {
			names = append(names, m.name)
		}
		if _, err := t.AddProject(o.Slice, lead); err != nil {
			return err
		}
		added, err := t.AddMembers(o.Slice, names, authority.PlainMember)
		isSet := false
		if err == nil {
			isSet, err = t.SetRequest(o.Slice, o.request)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(c.Out, "\n%s leads the project %s, which has %s.", lead, o.Slice, display.Count(added, "new member"))
		if isSet {
			fmt.Fprintf(c.Out, " Its members start %s in the browser.\n", display.Line(o.Request))
		} else {
			fmt.Fprintf(c.Out, " It keeps its request, which differs from %s; %s can replace it on the page Class.\n", display.Line(o.Request), lead)
		}
	}
	if o.Links == "" {
		return nil
	}
	out, err := os.OpenFile(o.Links, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	var have []string
	for _, m := range class {
		link, err := t.Link(m.name, authority.InvitationLife)
		if err == nil && link.URL == "" {
			have = append(have, m.name)
		} else if err == nil {
			_, err = fmt.Fprintf(out, "%s %s\n", m.name, link.URL)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("the link of %s: %w", m.name, needsServer(t, err)), out.Close())
		}
	}
	if len(have) > 0 {
		fmt.Fprintf(c.Out, "\nThese users have a link or are signed in, and get no other: %s. For a lost link: patchbay user NAME --link\n", strings.Join(have, ", "))
	}
	if len(have) == len(class) {
		return errors.Join(out.Close(), os.Remove(o.Links))
	}
	fmt.Fprintf(c.Out, "\nThe links are in %s: each works once, until %s. Send each line only to its user.\n", o.Links, time.Now().Add(authority.InvitationLife).Format(time.DateOnly))
	return out.Close()
}
