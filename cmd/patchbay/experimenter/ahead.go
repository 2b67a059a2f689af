package experimenter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/client/experiment"
	"patchbay/am/client/session"
	"patchbay/am/display"
	"patchbay/cmd/patchbay/command"
)

// parseWindow parses --at and --until, and sets the end that --for requests after --at.
func (o *upOptions) parseWindow(now time.Time) (err error) {
	o.from = now.Truncate(time.Second)
	if o.At != "" {
		if o.start, err = display.ParseTime(o.At, now, now); err != nil {
			return fmt.Errorf("--at: %w", err)
		}
		if o.from = o.start; !o.start.After(now) {
			return fmt.Errorf("--at: %s is in the past; without --at, the nodes begin now", display.LocalAndUTC(o.start.Local()))
		}
	}
	switch {
	case o.Until != "" && o.For != "":
		return errors.New("--for and --until both set the end of the leases; give one")
	case o.Until != "":
		if o.end, err = display.ParseTime(o.Until, now, o.from); err != nil {
			return fmt.Errorf("--until: %w", err)
		}
		if !o.end.After(o.from) {
			return fmt.Errorf("--until: %s is not after the start at %s", display.LocalAndUTC(o.end.Local()), display.LocalAndUTC(o.from.Local()))
		}
	case o.At != "" && o.life > 0:
		o.end = o.start.Add(o.life)
	}
	return nil
}

// credentialLife returns how long the credential of the slice must last from now on. Without a requested end, it
// leaves the site a day for the lease. A credential that this command writes lasts a week longer, so that the site can
// suggest a later start.
func (o *upOptions) credentialLife(now time.Time, isWritten bool) time.Duration {
	life := o.end.Sub(now)
	switch {
	case o.start.IsZero() && o.end.IsZero():
		return o.life
	case o.end.IsZero():
		life = o.start.AddDate(0, 0, 1).Sub(now)
	}
	if isWritten {
		life += 7 * 24 * time.Hour
	}
	return life
}

func (o *upOptions) endFlag() string {
	if o.Until != "" {
		return "--until " + o.Until
	}
	return "--for " + o.For
}

// waiting returns the slivers that begin later.
func waiting(list []client.Sliver) []client.Sliver {
	now := time.Now()
	return slices.DeleteFunc(slices.Clone(list), func(v client.Sliver) bool { return !v.Waits(now) })
}

// reserve reserves what begins later, and shows it. If it was reserved before, reserve only replaces the keys.
func (u *upRun) reserve(ctx context.Context) error {
	s, x, wait := u.s, u.x, waiting(u.have)
	isOther := !u.start.IsZero() && slices.ContainsFunc(u.have, func(v client.Sliver) bool { return !v.Begins.Equal(u.start) })
	switch {
	case isOther:
		when := "run"
		if len(wait) > 0 {
			when = "begin at another time"
		}
		return fmt.Errorf("the slice %s has nodes already, which %s; delete them with: %s; or choose another name with --slice", x.Name, when, s.Hint("down", x.Name))
	case len(wait) > 0 && u.plan.Has(experiment.Add, experiment.ChangeInPlace, experiment.Replace, experiment.Remove):
		return fmt.Errorf("the slice %s %s; until then its nodes cannot be changed; release them with: %s; and repeat the command with --at TIME", x.Name, beginsText(&wait[0], time.Now()), s.Hint("down", x.Name))
	case len(wait) > 0:
		if u.end.IsZero() || u.end.Equal(experiment.LatestEnd(wait)) {
			fmt.Fprintf(s.Err, "Nothing to change in the slice %s, which waits for its start.\n", x.Name)
		} else if _, err := s.renew(ctx, x.Name, u.have, u.end); err != nil {
			return err
		}
		var urns []string
		for _, v := range wait {
			urns = append(urns, v.URN)
		}
		if _, _, err := x.Client.Provision(ctx, urns, x.Credentials, client.Options{Users: x.Users, AtStart: true}); err != nil {
			return err
		}
	case u.ahead == 0:
		return errors.New("this aggregate reserves nothing ahead; leave --at out")
	default:
		if err := u.source.ListSent(s.Console, u.file); err != nil {
			return err
		}
		x.Start, x.Notices = u.start, func(text string) {
			fmt.Fprintf(s.Err, "The site reports: %s\n", display.Line(display.LocalTimes(text)))
		}
		if err := u.carryOut(ctx); err != nil {
			return err
		}
	}
	answer, err := x.Refresh(ctx)
	if err != nil {
		return err
	}
	if wait = waiting(answer.Slivers); len(wait) == 0 {
		return u.finish(ctx)
	}
	return u.showAhead(wait)
}

// showAhead prints the window of the slivers, and what happens next.
func (u *upRun) showAhead(list []client.Sliver) error {
	_, err := fmt.Fprintf(u.s.Out, `Slice %s: %s reserved.
begins:  %s, %s
ends:    %s
At the start, the site creates and starts the nodes, with your SSH keys.
next:  %s
       %s
       %s
`, u.x.Name, display.Count(len(list), "node"), display.LocalAndUTC(list[0].Begins.Local()), command.Distance(time.Until(list[0].Begins)), display.LocalAndUTC(list[0].Ends.Local()),
		u.s.Hint("status", u.x.Name), u.s.Hint("extend", u.x.Name, "2h"), u.s.Hint("down", u.x.Name))
	return err
}

// withoutOptions replaces the options of the API in a refusal by words.
var withoutOptions = strings.NewReplacer(" (geni_start_time)", "", " (geni_end_time)", "", "geni_start_time", "the start", "geni_end_time", "the end")

// suggestWindow adds to a refusal the commands that would succeed according to the site.
func (u *upRun) suggestWindow(err error) error {
	e, ok := errors.AsType[*am.Error](err)
	if !ok {
		return err
	}
	err = &am.Error{Code: e.Code, Detail: e.Detail, Msg: display.LocalTimes(withoutOptions.Replace(e.Msg)), Err: err}
	if len(u.have) > 0 {
		return err
	}
	command := func(start, end time.Time) string {
		words := []string{"up", u.file, "--slice", u.x.Name}
		if u.Example {
			words[1] = "--example"
		}
		for _, text := range u.source.Set {
			words = append(words, "--set", text)
		}
		if !start.IsZero() {
			words = append(words, "--at", start.Local().Format(time.RFC3339))
		}
		if !end.IsZero() {
			words = append(words, "--until", end.Local().Format(time.RFC3339))
		}
		return u.s.Hint(words...)
	}
	if first := e.FirstStart; !first.IsZero() && !first.Equal(u.start) {
		end := u.end
		if !end.IsZero() {
			end = first.Add(cmp.Or(u.life, end.Sub(u.from)))
		}
		err = fmt.Errorf("%w\nthere is room from %s on: %s", err, display.LocalAndUTC(first.Local()), command(first, end))
	}
	if longest := e.LongestEnd; !longest.IsZero() {
		err = fmt.Errorf("%w\nthere is room until %s: %s", err, display.LocalAndUTC(longest.Local()), command(u.start, longest))
	}
	return err
}

// beginsText returns a text such as "begins in 3d (2026-12-04 09:00 CET)".
func beginsText(v *client.Sliver, now time.Time) string {
	return fmt.Sprintf("begins %s (%s)", command.Distance(v.Begins.Sub(now)), display.Local(v.Begins.Local()))
}

// windowTexts returns a text about each window of the slivers that begin later.
func windowTexts(list []client.Sliver) (texts []string) {
	now := time.Now()
	for _, v := range waiting(list) {
		text := fmt.Sprintf("%s, ends %s", beginsText(&v, now), display.Local(v.Ends.Local()))
		if v.Expires.Before(v.Ends) {
			text += fmt.Sprintf("; it is released %s unless it is provisioned before", display.Local(v.Expires.Local()))
		}
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

// limitText returns a text if the leases that have begun cannot be extended by a day, for another reason than the end of
// the credential, which extend renews.
func limitText(x *session.Slice, list []client.Sliver) []string {
	var limit time.Time
	for _, v := range list {
		if until := v.RenewableUntil; !until.IsZero() && until.Before(v.Expires.AddDate(0, 0, 1)) && (limit.IsZero() || until.Before(limit)) {
			limit = until
		}
	}
	for _, c := range x.Credentials {
		if end, _ := session.ReadCredential([]byte(c.Text)); limit.IsZero() || !limit.Before(end.Expires.Add(-time.Minute)) {
			return nil
		}
	}
	return []string{"renewable until " + display.Local(limit.Local())}
}
