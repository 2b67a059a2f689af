package authority

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/cmd/patchbay/command"
	"patchbay/credentials/trial"
)

const toolLong = `Create a tool of the site's trial authority, such as a portal that acts for users: a
certificate and its key, in tools/NAME of the site's folder. With --for USER, that user
signs a speaks-for credential. While it is valid, the tool may do everything that
the user may (option geni_speaking_for).`

type toolOptions struct {
	site    command.SiteFlag
	Name    string
	For     string
	Expires string
	life    time.Duration
}

func (o *toolOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.StringVar(&o.For, "for", "", "the user that the tool may speak for")
	fs.StringVar(&o.Expires, "expires", "30d", "how long the speaks-for credential lasts")
}

func (o *toolOptions) Validate(args []string) (err error) {
	if o.Name, err = command.OneArgument(args, "the tool's name"); err != nil {
		return err
	}
	o.life, err = parseLifetime(o.Expires)
	return err
}

func (o *toolOptions) Run(ctx context.Context, c command.Console) error {
	t, unlock, err := o.site.LockTrial(ctx, c.Err)
	if err != nil {
		return err
	}
	defer unlock()
	var user *userfolder.User
	if o.For != "" {
		if user, err = t.ExistingUser(o.For); err != nil {
			return err
		}
	}
	now := time.Now()
	expires, err := t.ExpiryOf(o.life, now)
	if err != nil {
		return err
	}
	tool, err := t.Tool(o.Name, now)
	if err != nil {
		return err
	}
	name := tool.URN.Name
	folder := filepath.Join(t.Dir, userfolder.ToolsDir, strings.ToLower(name))
	files := []site.File{{Name: name + "-cert.pem", Content: tool.Certificate, Mode: 0o644}, {Name: name + "-key.pem", Content: tool.Key, Mode: 0o600}}
	if user != nil {
		text, err := trial.SpeaksFor(user.User, tool.Certificate, expires)
		if err != nil {
			return err
		}
		files = append(files, site.File{Name: "for-" + user.Name + ".xml", Content: text, Mode: 0o600})
	}
	if err := site.WriteFiles(folder, files); err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "Tool %s, in %s:\n\n", tool.URN, folder)
	for _, f := range files {
		fmt.Fprintf(c.Out, "  %s\n", f.Name)
	}
	if user != nil {
		speaking := []string{"call", "--user", folder, "--credential", filepath.Join(folder, "for-"+user.Name+".xml"),
			"--user", user.Path("usercred.xml"), "--speaking-for", user.URN.String()}
		slice := "SLICE"
		if have := userfolder.Slices(user.Dir); len(have) > 0 {
			slice = have[0]
		}
		fmt.Fprintf(c.Out, "\nTo speak for %s, with the user's own credentials:\n  %s\nand in a slice of the user:\n  %s\n", user.Name,
			display.CommandAt(t.Config.Origin.File, append(speaking, "ListResources")...), display.CommandAt(t.Config.Origin.File, append(speaking, "--slice", user.CredentialFile(slice), "Status")...))
	}
	return nil
}
