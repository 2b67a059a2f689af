package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/follow/audit"
	"patchbay/am/site/operate"
	"patchbay/cmd/patchbay/command"
)

const whoLong = `Find who used an IP address at a given time: the sliver that had ADDRESS, or PORT of that
address, its slice, its user, the tool that spoke for the user, and the call that reserved
it. IPv6 addresses with a port are in brackets. PORT is a login port at the gateway, or the
source port of a connection from nodes that share ADDRESS; give it if you know it.

The time of --at is like 2026-11-20T14:05:00+01:00, "2026-11-20 14:05 +0100" or seconds
since 1970, and means that whole second. The default is now.

It reads the audit of the site of --config, with rotated files beside it (audit.log.1,
audit.log.2.gz, audit.log-20261120), or the given FILEs. It works with and without a
running server.

The exit status is 0 if a user was found, else 1.`

type whoOptions struct {
	site  command.SiteFlag
	At    string
	JSON  bool
	place audit.Place
	at    time.Time
	files []string
}

func (o *whoOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.StringVar(&o.At, "at", "", "the time, with its zone (default: now)")
	fs.BoolVar(&o.JSON, "json", false, "print one JSON object")
}

func (o *whoOptions) Validate(args []string) (err error) {
	if len(args) == 0 {
		return fmt.Errorf("name the address: ADDRESS or ADDRESS:PORT")
	}
	if o.place, err = audit.ParsePlace(args[0]); err != nil {
		return err
	}
	now := time.Now()
	o.files, o.at = args[1:], now
	if o.At != "" {
		if o.at, err = operate.ParseTime(o.At); err != nil {
			return fmt.Errorf("--at %w", err)
		}
		if o.at.After(now) {
			return fmt.Errorf("--at %s is in the future; give a time until now", o.At)
		}
	}
	return nil
}

func (o *whoOptions) Run(_ context.Context, c command.Console) error {
	files, err := o.audits()
	if err != nil {
		return err
	}
	a, err := audit.Who(files, o.place, o.at)
	if err != nil {
		return err
	}
	if o.JSON {
		e := json.NewEncoder(c.Out)
		e.SetIndent("", "  ")
		if err := e.Encode(a); err != nil {
			return err
		}
	} else {
		printAnswer(c.Out, a, o.place)
	}
	if len(a.Holders) == 0 {
		return command.ExitError(1)
	}
	return nil
}

// audits returns the audit files, oldest first.
func (o *whoOptions) audits() ([]string, error) {
	if len(o.files) > 0 {
		return audit.InOrder(o.files)
	}
	config, err := o.site.Read()
	if err != nil {
		return nil, err
	}
	return audit.Files(config.Audit)
}

func printAnswer(w io.Writer, a *audit.Answer, p audit.Place) {
	at := display.Time(a.At)
	if len(a.Holders) == 0 {
		printNoHolder(w, a, p)
		return
	}
	fmt.Fprintf(w, "%s at %s:\n", a.Place, at)
	for i := range a.Holders {
		fmt.Fprintln(w)
		printHolder(w, &a.Holders[i])
	}
	if a.More > 0 {
		fmt.Fprintf(w, "\nand %s more.\n", display.Count(a.More, "sliver"))
	}
	if a.Shared {
		fmt.Fprintf(w, "\nThey shared %s with different ports. Ask the person who complained for the source\nport, and add it: %s:PORT\n", a.Place, bracketed(p))
	}
}

func exact(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// bracketed puts IPv6 addresses in brackets, so that ":PORT" can follow.
func bracketed(p audit.Place) string {
	if p.Addr.Is6() {
		return "[" + p.Addr.String() + "]"
	}
	return p.String()
}

// printHolder prints a sliver, its time with the address, and the call that reserved it.
func printHolder(w io.Writer, h *audit.Holder) {
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %-12s %s\n", name, display.Printable(fmt.Sprintf(format, args...)))
	}
	row("slice", "%s", h.Slice)
	row("user", "%s", h.User)
	if h.Speaker != "" {
		row("speaker", "%s", h.Speaker)
	}
	row("sliver", "%s", h.Sliver)
	row("component", "%s", h.Component)
	row("as", "%s", strings.Join(h.As, ", "))
	row("since", "%s", exact(h.Since))
	switch {
	case !h.Seen.IsZero() && h.Until.IsZero():
		row("until", "unknown: the audit ends at %s", exact(h.Seen))
	case !h.Seen.IsZero():
		row("until", "some time between %s and %s, when no lines were written", exact(h.Seen), exact(h.Until))
	case h.Until.IsZero():
		row("until", "now")
	default:
		row("until", "%s", exact(h.Until))
	}
	if h.Maybe {
		row("", "It may have ended before the given time, or begun after it.")
	}
	switch c := h.Call; {
	case c != nil:
		row("reserved by", "%s, request %s, at %s, from %s", c.Method, c.ID, c.At, c.Remote)
		if c.Caller != h.User {
			row("caller", "%s", c.Caller)
		}
		for _, f := range c.Credentials {
			row("credential", "SHA-256 %s", f)
		}
	case h.Request != "":
		row("reserved by", "request %s, which is not in these files", h.Request)
	}
}

// printNoHolder also prints the last sliver with the address before the time, and the first
// sliver after.
func printNoHolder(w io.Writer, a *audit.Answer, p audit.Place) {
	if a.From.IsZero() {
		fmt.Fprintf(w, "No user of %s is known: there is no audit yet.\n", a.Place)
		return
	}
	fmt.Fprintf(w, "No sliver had %s at %s.\nThe audit covers %s to %s.\n", a.Place, display.Time(a.At), display.Time(a.From), display.Time(a.To))
	if p.Host != "" {
		fmt.Fprintf(w, "%s is not an IP address; it was compared with the host names of logins.\n", p.Host)
	}
	if a.At.Before(a.From) {
		fmt.Fprintln(w, "The given time is before that; give the archived audit files as arguments.")
	}
	for _, n := range []struct {
		what   string
		holder *audit.Holder
	}{{"The last sliver before", a.Before}, {"The first sliver after", a.After}} {
		if n.holder != nil {
			fmt.Fprintf(w, "\n%s:\n", n.what)
			printHolder(w, n.holder)
		}
	}
	if p.Port == 0 {
		return
	}
	p.Port = 0
	fmt.Fprintf(w, "\nTo list all slivers that shared the address, leave out the port: %s\n", p)
}
