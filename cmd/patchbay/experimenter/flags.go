package experimenter

import (
	"context"
	"os"

	"github.com/spf13/pflag"

	"patchbay/am/client/session"
	"patchbay/am/site"
	"patchbay/cmd/patchbay/command"
)

// experimenterFlags are shared by up, ssh, status, extend, export, share and down.
type experimenterFlags struct {
	site          command.SiteFlag
	URL, CA, User string
}

func (o *experimenterFlags) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.StringVar(&o.URL, "url", os.Getenv(site.EnvPrefix+"URL"), "the aggregate manager, instead of a site of this host; also PATCHBAY_URL")
	fs.StringVar(&o.CA, "ca", "", "accept only servers with a certificate in this file")
	fs.StringVar(&o.User, "user", "", "the user: a name at the site, or a user's folder (default: the only user, or the only one with experiments)")
}

// opened is a session with the streams of its command.
type opened struct {
	*session.Session
	command.Console
}

// open returns the session that the flags select; see session.Open.
func (o *experimenterFlags) open(ctx context.Context, c command.Console, creating bool) (*opened, error) {
	choice := session.Selection{Site: &o.site.ChosenSite, URL: o.URL, CA: o.CA}
	if o.User != "" {
		choice.Users = []string{o.User}
	}
	s, err := session.Open(ctx, choice, c.Err, creating)
	if err != nil {
		return nil, err
	}
	return &opened{s, c}, nil
}

// openLocked also locks the user's folder until the session is closed.
func (o *experimenterFlags) openLocked(ctx context.Context, c command.Console, creating bool) (*opened, error) {
	s, err := o.open(ctx, c, creating)
	if err != nil {
		return nil, err
	}
	if err := s.LockUntilClose(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}
