package experimenter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/client/session"
	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/cmd/patchbay/command"
)

const webLong = `Print a link that signs you in to the pages of a site, and open it in a browser. The
link works once, within 15 minutes. The browser is opened if there is a desktop, you are
not root, and --print is not given.

The site is chosen as for up: the aggregate of a user's folder, the site of --config or of
the current folder, or your own site. An operator prints a link for somebody else with
patchbay user NAME --link.

--operator signs you in as an operator of a site of this host. --sign-out ends all
operators' sessions and links.`

type webOptions struct {
	experimenterFlags
	Print, Operator, SignOut bool
}

func (o *webOptions) AddFlags(fs *pflag.FlagSet) {
	o.experimenterFlags.AddFlags(fs)
	fs.BoolVar(&o.Print, "print", false, "only print the link, do not open it")
	fs.BoolVar(&o.Operator, "operator", false, "sign in as an operator of the site")
	fs.BoolVar(&o.SignOut, "sign-out", false, "with --operator: sign all operators out")
}

func (o *webOptions) Validate(args []string) error {
	switch {
	case o.SignOut && !o.Operator:
		return errors.New("--sign-out needs --operator; to sign a member out: patchbay user NAME --sign-out")
	case o.Operator && o.User != "":
		return errors.New("--operator is for operators, and --user for members; leave out one of them")
	}
	return command.NoArguments(args)
}

func (o *webOptions) Run(ctx context.Context, c command.Console) error {
	if o.Operator {
		return o.runOperator(ctx, c)
	}
	s, err := o.open(ctx, c, false)
	if err != nil {
		return err
	}
	defer s.Close()
	link, err := s.PagesLink(ctx)
	switch {
	case errors.Is(err, site.ErrNotServed):
		return notServed(err, s.Config)
	case err != nil:
		return s.Explain(err)
	}
	return o.show(c, link)
}

func (o *webOptions) runOperator(ctx context.Context, c command.Console) error {
	config, err := o.site.Read()
	if err != nil {
		return err
	}
	admin := site.Connect(config)
	if o.SignOut {
		ended, err := admin.SignOutOperators(ctx)
		if err != nil {
			return notServed(err, config)
		}
		_, err = fmt.Fprintf(c.Out, "All operators are signed out; %s ended.\n", display.Count(ended, "session"))
		return err
	}
	link, err := admin.OperatorLink(ctx)
	if err != nil {
		return notServed(err, config)
	}
	return o.show(c, link)
}

// notServed adds the command that starts the site to ErrNotServed.
func notServed(err error, config *site.Config) error {
	if !errors.Is(err, site.ErrNotServed) {
		return err
	}
	return fmt.Errorf("%w, so it has no pages; start it with: %s", err, session.ServeCommand(config.Origin.File))
}

// show prints a link, and opens it if it can.
func (o *webOptions) show(c command.Console, link site.Link) error {
	if _, err := fmt.Fprintln(c.Out, display.Line(link.URL)); err != nil {
		return err
	}
	fmt.Fprintf(c.Err, "The link works once, until %s.\n", command.TimeAndDistance(link.Ends, time.Now()))
	if o.Print || os.Geteuid() == 0 || os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return nil
	}
	if err := openBrowser(link.URL); err != nil {
		fmt.Fprintf(c.Err, "The browser was not opened: %v. Open the link yourself.\n", err)
	}
	return nil
}

// openBrowser starts the browser of the desktop, which outlives this process.
func openBrowser(url string) error {
	cmd := exec.Command("xdg-open", url)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}

// showPages prints a link to the pages of the user's own site. It prints nothing if these are off or cannot be reached,
// which does not matter for an experiment.
func (s *opened) showPages(ctx context.Context) {
	if s.Own == nil {
		return
	}
	if link, err := s.PagesLink(ctx); err == nil {
		fmt.Fprintf(s.Out, "pages: %s\n", display.Line(link.URL))
	}
}
