package authority

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am"
	"patchbay/am/authority"
	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/am/urn"
	"patchbay/cmd/patchbay/command"
	"patchbay/credentials/trial"
)

const userLong = `Create users of the site's trial authority: for each a certificate, its key, a user
credential, an SSH key pair, an omni_config and the URL of the site, in users/NAME beside
the configuration. An existing user does not change; --renew writes fresh credentials,
with the same certificate and keys.

A NAME is a letter and up to 31 letters, digits, hyphens or underscores. In lower case it
is the login on the nodes; names that systems reserve, such as admin, get a number at the end.

With --ssh-key FILE the user has SSH keys of their own: FILE has the public keys, and no
key pair is created.

For a class, give all names, or a list with one user a line: the NAME and optionally the
SSH key, as a file (relative to the list) or as the text of the public key. A list whose
first line has commas is CSV with the columns name and, optionally, ssh_key; other columns
are ignored. Lines that begin with # are comments. If any line is wrong, nothing is
created. Repeat the command with a longer list to add users.

--slice lab1 creates a slice for each user: lab1-NAME, with a hyphen for each underscore.
--bundle DIR packs the files that each user needs on another machine into DIR/NAME.zip,
with instructions in README.txt.

For a class in the browser, --request FILE creates the project of --slice instead of slices:
the users are its members, and each starts FILE, a request RSpec, RADL or a blueprint, in a
slice of their own. --lead TEACHER leads the project; the default is the first user.

--link prints a link that signs a user in to the site's pages; it works once, within
15 minutes, and ends the user's earlier link. --links FILE writes a link that works for 7 days
for each user of a list, but those who have one or are signed in, into a new file; send each
line only to its user.
--sign-out ends all sessions and links of a user.

Clients that read credentials from files can use them: omni, geni-lib, patchbay call. If the
site serves the trial authority, omni gets its credentials there, and "patchbay login --jfed"
writes the files for jFed.`

type userOptions struct {
	site    command.SiteFlag
	Names   []string
	List    string
	SSHKey  string
	Slice   string
	Expires string
	Bundle  string
	Renew   bool
	life    time.Duration

	Request, Lead string
	Links         string
	Link, SignOut bool
	request       []byte // the text of Request
}

func (o *userOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.StringVar(&o.List, "list", "", "create the users in this file, one a line; - is standard input")
	fs.StringVar(&o.SSHKey, "ssh-key", "", "a file with the user's own public SSH keys")
	fs.StringVar(&o.Slice, "slice", "", "also create a slice for each user: SLICE-NAME")
	fs.StringVar(&o.Expires, "expires", "7d", "with --slice: how long its credential lasts; no sliver lives longer")
	fs.StringVar(&o.Bundle, "bundle", "", "pack the files that each user needs elsewhere into this folder, as NAME.zip")
	fs.BoolVar(&o.Renew, "renew", false, "write fresh credentials for existing users and slices")
	fs.StringVar(&o.Request, "request", "", "with --slice: create a project of that name, whose members start this request in the browser")
	fs.StringVar(&o.Lead, "lead", "", "with --request: the user who leads the project (default: the first user)")
	fs.StringVar(&o.Links, "links", "", "write a line \"NAME LINK\" for each user into this new file; a link signs in to the site's pages once")
	fs.BoolVar(&o.Link, "link", false, "print a link that signs the user in to the site's pages once")
	fs.BoolVar(&o.SignOut, "sign-out", false, "end all sessions and links of the user")
}

func (o *userOptions) Validate(args []string) (err error) {
	o.Names = args
	switch {
	case o.List == "" && len(args) == 0:
		return errors.New("name the users to create, or give a file with --list")
	case o.List != "" && len(args) > 0:
		return fmt.Errorf("--list names the users; leave out %q, or write it into the list", args[0])
	case o.SSHKey != "" && (o.List != "" || len(args) > 1):
		return errors.New("--ssh-key is for one user; for several, write the keys after the names in a list: --list FILE")
	}
	if o.Slice != "" {
		if err := trial.CheckSlice(o.Slice); err != nil {
			return fmt.Errorf("--slice: %w", err)
		}
	}
	if err := o.validatePages(); err != nil {
		return err
	}
	o.life, err = parseLifetime(o.Expires)
	return err
}

// validatePages checks the flags about the site's pages.
func (o *userOptions) validatePages() error {
	switch {
	case (o.Link || o.SignOut) && (len(o.Names) != 1 || o.Link && o.SignOut || o.Slice+o.Bundle+o.SSHKey+o.Request+o.Links != "" || o.Renew):
		return errors.New("--link and --sign-out are for one existing user, without other flags; for a list, write links into a file: --links FILE")
	case o.Lead != "" && o.Request == "":
		return errors.New("--lead needs --request FILE; for a project without a request: patchbay authority project NAME --lead USER")
	case o.Request == "":
		return nil
	case o.Slice == "":
		return errors.New("--request needs --slice NAME, which names the project")
	case o.Bundle != "":
		return errors.New("--bundle has the files for slices, and with --request users start slices in the browser; leave out one of them")
	}
	if err := authority.CheckProject(o.Slice); err != nil {
		return fmt.Errorf("--slice: %w", err)
	}
	return nil
}

func (o *userOptions) Run(ctx context.Context, c command.Console) error {
	t, unlock, err := o.site.LockTrial(ctx, c.Err)
	if err != nil {
		return err
	}
	defer unlock()
	switch {
	case o.Link:
		return o.printLink(t, c)
	case o.SignOut:
		ended, err := t.SignOut(o.Names[0])
		if err == nil {
			fmt.Fprintf(c.Out, "%s is signed out; %s ended.\n", o.Names[0], display.Count(ended, "session"))
		}
		return err
	case o.List != "" || len(o.Names) > 1 || o.Slice != "" || o.Bundle != "" || o.Links != "":
		return o.makeClass(ctx, t, c)
	}
	var keys []byte
	if o.SSHKey != "" {
		if keys, err = userfolder.ReadSSHKeys(o.SSHKey); err != nil {
			return fmt.Errorf("--ssh-key: %w", err)
		}
	}
	u, made, err := t.WriteUserWithKeys(o.Names[0], keys, o.Renew, time.Now())
	if err != nil {
		return err
	}
	what := "exists already"
	switch {
	case made && o.Renew:
		what = "has a fresh credential"
	case made:
		what = "was created"
	}
	fmt.Fprintf(c.Out, "User %s %s, in %s:\n\n", u.URN, what, u.Dir)
	ssh := [2]string{"id_ed25519", "SSH key for the nodes; id_ed25519.pub is its public half"}
	if len(u.SSHKey) == 0 {
		ssh = [2]string{userfolder.OwnKeys, "the user's own SSH keys, public halves"}
	}
	for _, line := range [][2]string{
		{u.File("cert.pem"), "certificate"},
		{u.File("key.pem"), "its key; keep it private"},
		{u.File("usercred.xml"), "user credential"},
		ssh,
		{userfolder.AggregateName, "URL and certificates of the site"},
		{"omni_config", "configuration for omni"},
	} {
		if userfolder.FileExists(filepath.Join(u.Dir, line[0])) {
			fmt.Fprintf(c.Out, "  %-24s %s\n", line[0], line[1])
		}
	}
	if login := loginOf(u.URN); login != strings.ToLower(u.Name) {
		fmt.Fprintf(c.Out, "\nSystems reserve the name %s, so the login on nodes is %s.\n", strings.ToLower(u.Name), login)
	}
	fmt.Fprintf(c.Out, "\nList what the site offers:\n  %s\n  %s\n",
		omniLine(t, u, "", "listresources"), callLine(t, u, "ListResources"))
	fmt.Fprintf(c.Out, "\nThen create a slice:\n  %s\nor a slice with the nodes of a request:\n  %s\n",
		display.CommandAt(t.Config.Origin.File, "slice", "first", "--owner", u.Name), display.CommandAt(t.Config.Origin.File, "up", "request.xml", "--user", u.Name))
	return nil
}

// loginOf returns the user's login on a node without other users.
func loginOf(user urn.URN) string { return am.LoginName(user, func(string) bool { return false }) }

// parseLifetime turns a duration that is too long for time.Duration into the longest possible one.
func parseLifetime(s string) (time.Duration, error) {
	life, err := display.ParseDuration(s)
	switch {
	case errors.Is(err, display.ErrTooLong):
		return math.MaxInt64, nil
	case err != nil:
		return 0, fmt.Errorf("--expires: %w", err)
	case life == 0:
		return 0, fmt.Errorf("--expires %s is no duration; give one such as 2h", s)
	}
	return life, nil
}

// omniLine returns a command line of omni.py. slice is a file with a slice credential, or "" for
// none.
func omniLine(t *userfolder.Trial, u *userfolder.User, slice string, args ...string) string {
	line := []string{"omni.py", "-c", filepath.Join(u.Dir, "omni_config"), "-a", t.URL, "-V", "3", "--usercredfile", u.Path("usercred.xml")}
	if slice != "" {
		line = append(line, "--slicecredfile", slice)
	}
	return display.ShellLine(append(line, args...))
}

func callLine(t *userfolder.Trial, u *userfolder.User, args ...string) string {
	return display.CommandAt(t.Config.Origin.File, append([]string{"call", "--user", u.Name}, args...)...)
}
