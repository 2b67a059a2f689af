package web

import (
	"fmt"
	"html/template"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"patchbay/am/display"
	"patchbay/am/site/operate"
)

// functions are those of the templates.
func (p *Pages) functions() template.FuncMap {
	return template.FuncMap{
		"assets":    sync.OnceValue(assetVersion),
		"clock":     clock,
		"distance":  func(t time.Time) template.HTML { return distance(t, p.Now()) },
		"count":     display.Count,
		"path":      url.PathEscape,
		"class":     class,
		"join":      strings.Join,
		"printable": display.Printable,
		"prose":     prose,
		"between":   between,
		"word":      stateWord,
		"state":     stateOf,
		"summary":   summaryOf,
		"names":     namesOf,
		"lastEnd":   p.lastEnd,
		"affected":  affectedText,
		"window":    windowKey,
		"nameIn":    nameIn,
		"holderEnd": holderEnd,
	}
}

// clock writes a time in UTC. The script adds the local time.
func clock(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	t = t.UTC()
	return template.HTML(fmt.Sprintf(`<time datetime="%s">%s</time>`, t.Format(time.RFC3339), inUTC(t)))
}

// inUTC writes a time in a text.
func inUTC(t time.Time) string { return t.UTC().Format(timeFormat) }

const timeFormat = "2 Jan 2006 15:04 UTC"

// sentence makes a sentence of the text of an error.
func sentence(text string) string {
	return strings.ToUpper(text[:min(1, len(text))]) + text[min(1, len(text)):] + "."
}

// timeInText matches the times of calls, and those of inUTC.
var timeInText = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z|\d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d UTC`)

// prose returns a text for people: times in it are written as elsewhere in the pages.
func prose(text string) template.HTML {
	return template.HTML(timeInText.ReplaceAllStringFunc(template.HTMLEscapeString(display.Printable(text)), func(s string) string {
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			if t, err = time.Parse(timeFormat, s); err != nil {
				return s
			}
		}
		return string(clock(t))
	}))
}

// distance writes how far a time is from now, such as "in 3 h" and "2 days ago".
func distance(t, now time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	text := between(t.Sub(now).Abs())
	switch {
	case text == "now":
	case t.After(now):
		text = "in " + text
	default:
		text += " ago"
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s" data-distance title="%s UTC">%s</time>`, t.UTC().Format(time.RFC3339), t.UTC().Format("2 Jan 2006 15:04"), text))
}

// lastEnd writes when the last lease of a node ends.
func (p *Pages) lastEnd(list []operate.Holder) template.HTML {
	var last time.Time
	for _, h := range list {
		if h.Frozen {
			return "kept"
		}
		if h.Expires.After(last) {
			last = h.Expires
		}
	}
	return distance(last, p.Now())
}

// between writes a duration with one unit, as people say it.
func between(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 45*time.Second:
		return "now"
	case d < 90*time.Minute && d != time.Hour:
		return fmt.Sprintf("%d min", int(d.Round(time.Minute)/time.Minute))
	case d < 36*time.Hour:
		return fmt.Sprintf("%d h", int(d.Round(time.Hour)/time.Hour))
	}
	return fmt.Sprintf("%d days", int(d.Round(day)/day))
}

// class returns the name of a class of the style for a state, from a text that may have blanks.
func class(state string) string {
	return "s-" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r
		}
		return '-'
	}, strings.ToLower(state))
}
