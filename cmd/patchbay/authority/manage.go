package authority

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/authority"
	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/am/follow/audit"
	"patchbay/am/site"
	"patchbay/am/urn"
	"patchbay/cmd/patchbay/command"
	"patchbay/credentials/cert"
)

const authorityLong = `Manage the trial authority: list its members, slices and projects, invite and remove
members, and change roles in slices. It also works while the site is served.

  members            list the members; --all includes removed ones
  slices, projects   list the slices that have not expired, and the projects, with the
                     members of each and their roles
  invite NAME …      print an invitation for each new member. A person uses it once, within
                     7 days, with: patchbay login URL CODE. The site must be served with
                     trial_authority: {serve: yes, invite: yes}
  remove NAME …      remove members: their certificates and credentials are no longer
                     accepted here. Other sites accept their credentials until these expire,
                     as a rule within 90 days. Their slivers remain until their leases end
  project NAME --lead USER   create a project with USER as LEAD, or make USER a LEAD of the
                     project. Its LEAD adds other members, and sees their names and emails.
                     --remove removes a project whose slices have all expired
  role SLICE NAME ROLE   make a member LEAD, ADMIN, MEMBER or AUDITOR of a slice, or take
                     the role away with none

Members change their own slices and keys with omni, jFed or geni-lib.`

type authorityOptions struct {
	site   command.SiteFlag
	JSON   bool
	All    bool
	URL    string
	Lead   string
	Remove bool
	action string
	args   []string
}

var authorityActions = []string{"members", "slices", "projects", "invite", "remove", "role", "project"}

func (o *authorityOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.BoolVar(&o.JSON, "json", false, "print one JSON object a line")
	fs.StringVar(&o.URL, "url", "", "with invite: the URL of the site for the new member, https://HOST:PORT (default: the site's public URL)")
	fs.BoolVar(&o.All, "all", false, "with members: list removed members, too")
	fs.StringVar(&o.Lead, "lead", "", "with project: the member who leads it")
	fs.BoolVar(&o.Remove, "remove", false, "with project: remove it")
}

func (o *authorityOptions) Validate(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("the action is missing; it is one of %s", strings.Join(authorityActions, ", "))
	}
	o.action, o.args = args[0], args[1:]
	switch {
	case !slices.Contains(authorityActions, o.action):
		hint := ""
		if near := display.Suggest(o.action, authorityActions); near != "" {
			hint = "; did you mean " + near + "?"
		}
		return fmt.Errorf("there is no action %q%s", o.action, hint)
	case slices.Contains(authorityActions[:3], o.action): // the lists
		return command.NoArguments(o.args)
	case o.action != "project" && (o.Lead != "" || o.Remove):
		return errors.New("--lead and --remove belong to: patchbay authority project NAME")
	case o.action == "project" && (len(o.args) != 1 || (o.Lead != "") == o.Remove):
		return errors.New("project needs a name, and --lead USER or --remove: patchbay authority project NAME --lead USER; to list projects: patchbay authority projects")
	case o.action == "role" && len(o.args) != 3:
		return errors.New("role needs a slice, a member and a role: patchbay authority role SLICE NAME ROLE")
	case len(o.args) == 0:
		return errors.New("the names of the members are missing")
	}
	return nil
}

func (o *authorityOptions) Run(ctx context.Context, c command.Console) error {
	t, unlock, err := o.site.LockTrial(ctx, c.Err)
	if err != nil {
		return err
	}
	defer unlock()
	now := time.Now()
	switch o.action {
	case "members":
		return o.printMembers(t, c)
	case "slices":
		list, err := t.Slices()
		return errors.Join(err, o.printGroups(c, list, "There are no slices."))
	case "projects":
		list, err := t.Projects()
		return errors.Join(err, o.printGroups(c, list, "There are no projects."))
	case "invite":
		return o.invite(t, c, now)
	case "remove":
		return o.remove(t, c)
	case "project":
		return o.project(t, c)
	}
	return o.setRole(t, c)
}

func (o *authorityOptions) printMembers(t *userfolder.Trial, c command.Console) error {
	list, err := t.Members(o.All)
	if err != nil {
		return err
	}
	if o.JSON {
		return encodeLines(c.Out, list)
	}
	done := &command.Table{Out: c.Out, Dash: true}
	done.Head("MEMBER", "SLICES", "KEYS", "CREATED", "EMAIL", "REMARK")
	for _, m := range list {
		remark := ""
		switch {
		case !m.Removed.IsZero():
			remark = "removed " + m.Removed.Format(time.DateOnly)
		case m.Invited:
			remark = "by invitation"
		}
		done.Row(m.URN.Name, fmt.Sprint(m.Slices), fmt.Sprint(m.Keys), m.Created.Format(time.DateOnly), m.Email, remark)
	}
	return done.Flush("There are no members.")
}

func encodeLines[T any](w io.Writer, list []T) error {
	e := json.NewEncoder(w)
	for _, x := range list {
		if err := e.Encode(x); err != nil {
			return err
		}
	}
	return nil
}

// printGroups prints slices or projects, with their members. Without any, it prints emptyText.
func (o *authorityOptions) printGroups(c command.Console, list []authority.Group, emptyText string) error {
	if o.JSON {
		return encodeLines(c.Out, list)
	}
	done := &command.Table{Out: c.Out, Dash: true}
	done.Head("NAME", "EXPIRES", "MEMBERS")
	for _, g := range list {
		name := g.URN.Name
		if _, project, ok := strings.Cut(g.URN.Authority, ":"); ok && g.URN.Type == urn.Slice {
			name = project + ":" + name
		}
		var members []string
		for _, m := range g.Members {
			members = append(members, fmt.Sprintf("%s (%s)", m.Member.Name, m.Role))
		}
		expires := "never"
		if !g.Expires.IsZero() {
			expires = g.Expires.UTC().Format(time.RFC3339)
		}
		done.Row(name, expires, strings.Join(members, ", "))
	}
	return done.Flush(emptyText)
}

func (o *authorityOptions) invite(t *userfolder.Trial, c command.Console, now time.Time) error {
	url := cmp.Or(o.URL, strings.TrimSuffix(t.URL, "/am/3.0"))
	if o.URL == "" && t.Port() == "0" {
		return errors.New("the site listens on any free port; give its URL with --url, or set listen or public_url in the configuration")
	}
	for _, name := range o.args {
		code, isReplaced, err := t.Invite(name)
		if err != nil {
			return err
		}
		note := ""
		if isReplaced {
			note = "; the earlier invitation of this name no longer works"
		}
		fmt.Fprintf(c.Out, "%s, until %s%s:\n  patchbay login %s %s\n", name, now.Add(authority.InvitationLife).Format(time.DateOnly), note, url, code)
	}
	if s := t.Config.TrialAuthority; !s.Serve || !s.Invite {
		fmt.Fprintf(c.Err, "The site does not accept invitations yet: set trial_authority: {serve: yes, invite: yes} in\n%s, and restart the server.\n", t.Config.Origin.File)
	}
	return nil
}

// remove removes members, and adds them to the deny list, so that the site refuses their credentials.
func (o *authorityOptions) remove(t *userfolder.Trial, c command.Console) error {
	for _, name := range o.args {
		if err := t.Remove(name); err != nil {
			return err
		}
		u := urn.URN{Authority: t.URN().Authority, Type: urn.User, Name: name}
		if err := deny(t.Config, u, "removed from the trial authority by "+audit.Operator()); err != nil {
			return fmt.Errorf("%s was removed, but must be added to the deny list: %w", name, err)
		}
		fmt.Fprintf(c.Out, "Removed: %s. Their slivers remain; to list them: %s\n", name, o.site.Hint("slivers", "--user", u.String()))
	}
	return nil
}

// deny adds a line to the deny list of the trust folder.
func deny(c *site.Config, u urn.URN, reason string) error {
	file := filepath.Join(c.Trusted, cert.DeniedFile)
	text, err := site.ReadRegular(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(text) > 0 && !strings.HasSuffix(string(text), "\n") {
		text = append(text, '\n')
	}
	return site.ReplaceFile(file, fmt.Appendf(text, "%s # %s\n", u, display.Printable(reason)), 0o644)
}

func (o *authorityOptions) project(t *userfolder.Trial, c command.Console) error {
	name := o.args[0]
	if o.Remove {
		if err := t.RemoveProject(name); err != nil {
			return err
		}
		fmt.Fprintf(c.Out, "Removed: the project %s.\n", name)
		return nil
	}
	isNew, err := t.AddProject(name, o.Lead)
	switch {
	case err != nil:
		return err
	case isNew:
		fmt.Fprintf(c.Out, "The project %s was created; %s is its LEAD, and adds members.\n", name, o.Lead)
	default:
		fmt.Fprintf(c.Out, "%s is now LEAD of the project %s, which existed; to list its members: %s\n", o.Lead, name, o.site.Hint("authority", "projects"))
	}
	return nil
}

func (o *authorityOptions) setRole(t *userfolder.Trial, c command.Console) error {
	slice, name, role := o.args[0], o.args[1], authority.Role(strings.ToUpper(o.args[2]))
	if role == "NONE" {
		role = ""
	}
	if err := t.SetRole(slice, name, role); err != nil {
		return err
	}
	if role == "" {
		fmt.Fprintf(c.Out, "%s is no member of %s any more. Credentials that they have are valid until the slice expires.\n", name, slice)
		return nil
	}
	fmt.Fprintf(c.Out, "%s is now %s of %s.\n", name, role, slice)
	return nil
}
