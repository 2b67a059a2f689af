package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/audit"
	"patchbay/am/display"
)

const whoLong = `Answer whose an address was: which sliver had ADDRESS, or what is behind PORT of it,
at some time, with its slice, its user, who spoke for the user, and the call by
which it was reserved. IPv6 addresses with a port are in brackets. A port of an
address is one that nodes are reached by from outside (a door), or one that they
appear as outside where several share an address; say it where you know it.

The time of --at is like 2026-11-20T14:05:00+01:00, "2026-11-20 14:05 +0100" or
seconds since 1970, and means all of that second; now if it is not given.

The audit of the site of --config is read, with what was moved away from it
beside it (audit.log.1, audit.log.2.gz, audit.log-20261120), or the FILEs that are
named instead. The site may be served meanwhile.

The exit status is 0 if somebody was found, 1 if nobody.`

type whoOptions struct {
	site  siteFlag
	At    string
	JSON  bool
	place audit.Place
	at    time.Time
	files []string
}

func (o *whoOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.StringVar(&o.At, "at", "", "the time, with its zone; now if it is not given")
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
		if o.at, err = parseTime(o.At); err != nil {
			return fmt.Errorf("--at %w", err)
		}
		if o.at.After(now) {
			return fmt.Errorf("--at %s is in the future, of which nothing is written", o.At)
		}
	}
	return nil
}

func (o *whoOptions) Run(_ context.Context, c console) error {
	files, err := o.audits()
	if err != nil {
		return err
	}
	a, err := audit.Who(files, o.place, o.at)
	if err != nil {
		return err
	}
	if o.JSON {
		e := json.NewEncoder(c.out)
		e.SetIndent("", "  ")
		if err := e.Encode(a); err != nil {
			return err
		}
	} else {
		printAnswer(c.out, a, o.place)
	}
	if len(a.Holders) == 0 {
		return exitError(1)
	}
	return nil
}

// audits are the files to read, oldest first.
func (o *whoOptions) audits() ([]string, error) {
	if len(o.files) > 0 {
		return audit.InOrder(o.files)
	}
	config, err := o.site.read()
	if err != nil {
		return nil, err
	}
	return audit.Files(config.Audit)
}

func printAnswer(w io.Writer, a *audit.Answer, p audit.Place) {
	at := display.Time(a.At)
	if len(a.Holders) == 0 {
		printNobody(w, a, p)
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
		fmt.Fprintf(w, "\nThey shared %s and differed by the port. Ask whoever complains for the port\nfrom which their machine was reached, and add it: %s:PORT\n", a.Place, bracketed(p))
	}
}

// exact is moment with what there is of fractions of a second.
func exact(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// bracketed is an address as it stands before a port.
func bracketed(p audit.Place) string {
	if p.Addr.Is6() {
		return "[" + p.Addr.String() + "]"
	}
	return p.String()
}

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
		row("until", "not known: the audit ends at %s", exact(h.Seen))
	case !h.Seen.IsZero():
		row("until", "some time between %s and %s, when no lines were written", exact(h.Seen), exact(h.Until))
	case h.Until.IsZero():
		row("until", "it has it still")
	default:
		row("until", "%s", exact(h.Until))
	}
	if h.Maybe {
		row("", "It may have ended before the time you ask for, or begun after it.")
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
		row("reserved by", "request %s, whose line is not in these files", h.Request)
	}
}

func printNobody(w io.Writer, a *audit.Answer, p audit.Place) {
	if a.From.IsZero() {
		fmt.Fprintf(w, "Nobody is known at %s: there is no audit yet.\n", a.Place)
		return
	}
	fmt.Fprintf(w, "Nobody was at %s at %s.\nThe audit covers %s to %s.\n", a.Place, display.Time(a.At), display.Time(a.From), display.Time(a.To))
	if p.Host != "" {
		fmt.Fprintf(w, "%s is no IP address, so it was looked for among the host names of logins.\n", p.Host)
	}
	if a.At.Before(a.From) {
		fmt.Fprintln(w, "What you ask for is before that; name the files that were put away as arguments.")
	}
	for _, n := range []struct {
		what   string
		holder *audit.Holder
	}{{"The last one there before", a.Before}, {"The first one there after", a.After}} {
		if n.holder != nil {
			fmt.Fprintf(w, "\n%s:\n", n.what)
			printHolder(w, n.holder)
		}
	}
	if p.Port == 0 {
		return
	}
	p.Port = 0
	fmt.Fprintf(w, "\nWithout the port, all are told who shared the address: %s\n", p)
}
