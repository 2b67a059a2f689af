package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/am/service"
	"patchbay/am/urn"
)

var calendarRoutes = []route{
	{"GET /ui/calendar", anyone, (*request).showCalendar, nil},
	{"GET /calendar.json", anyone, (*request).sendCalendar, nil},
}

const (
	// calendarDays is the usual length of the calendar, and maxCalendarDays the longest one.
	calendarDays, maxCalendarDays = 8, 31
	// openTypes is the number of components up to which a type is open, calendarRows the number of rows of an open one, and openRows the number
	// of rows after which only a chosen type is open.
	openTypes, calendarRows, openRows = 24, 32, 96
	// minGap is the shortest free time that is a link.
	minGap = 10 * time.Minute
	// thinnest is the part of the width below which windows are joined, so that a row has a limited size.
	thinnest = 0.001
)

// calendarBody is the data of templates/calendar.html.
type calendarBody struct {
	*request
	*service.Calendar
	Days  int
	Ticks []tick
	Step  int // the time between ticks in hours
	cell  time.Duration
	Now   string
	Rows  []calendarType
}

// rowPicture is the data of the template bars.
type rowPicture struct {
	*calendarBody
	Name   string
	Height int
	Bars   []bar
}

func (x *calendarBody) Picture(name string, height int, bars []bar) rowPicture {
	return rowPicture{x, name, height, bars}
}

// Legend explains the colors.
func (x *calendarBody) Legend() []bar {
	list := []bar{{Class: "gap", Text: "free"}, {Class: "held", Text: "in use"}, {Class: "ahead", Text: "reserved"}, {Class: "cleaning", Text: "being cleaned"}, {Class: "maintenance", Text: "maintenance, or out of service"}}
	if x.isMember() {
		list = append(list, bar{Class: "mine", Text: "yours"})
	}
	return list
}

// tick is a time on the axis. Minor ones, and the text of one at the edge, are left out where there is little room.
type tick struct {
	X, Text, Href   string // Href is the URL of the day that begins
	IsMinor, IsEdge bool
}

// calendarType is a type with what the picture shows. Bars are those of the row that counts what is free.
type calendarType struct {
	service.CalendarType
	ID, Open   string // Open is the URL with the components
	IsOpen     bool
	Bars       []bar
	Components []calendarRow
	Next       string // the URL of the next components; "" for none
	Last       int    // the number of the last component that is shown
}

type calendarRow struct {
	Name string
	Bars []bar
}

// bar is a rectangle from X on. Y and H are its place in the height of the row. Label says what it is, and Text is inside it.
type bar struct {
	X, W, Y, H, TextX  string
	Class, Label, Text string
	Href               string
	Cells              []bar // the times in it at which an experiment can begin, which are links
	begin, end         float64
}

// calendarRange returns the time of the query: from, in UTC, and a number of days. It is after first, which is the usual one.
func (q *request) calendarRange(first time.Time) (from time.Time, days int, err error) {
	v := q.r.URL.Query()
	from, days = first, calendarDays
	last := first.Add(max(q.AheadMax, maxCalendarDays*24*time.Hour))
	if text := v.Get("days"); text != "" {
		if days, err = strconv.Atoi(text); err != nil || days < 1 || days > maxCalendarDays {
			return from, days, badRequest("%.20q is no number of days. The calendar shows 1 to %d of them.", text, maxCalendarDays)
		}
	}
	if text := v.Get("from"); text != "" {
		if from, err = time.Parse(time.DateOnly, text); err != nil {
			from, err = parseInput(text)
		}
		if err != nil {
			return from, days, badRequest("%.40q is not a time. Write one such as %s, in UTC.", text, first.Format(inputTime))
		}
		if from.Before(first.Add(-time.Hour)) || from.After(last) { // an hour, since a page may be open for a while
			return from, days, badRequest("The calendar shows no time before today, and none after %s.", inUTC(last))
		}
	}
	return from, days, nil
}

// readCalendar returns the calendar of the query, usually from first on, with the slices of the visitor marked.
func (q *request) readCalendar(first time.Time) (x *calendarBody, err error) {
	x = &calendarBody{request: q}
	from, days, err := q.calendarRange(first)
	if err != nil {
		return nil, err
	}
	var mine []urn.URN
	if q.isMember() {
		roles, err := q.roles("SLICE")
		if err != nil {
			return nil, err
		}
		for key := range roles {
			u, _ := urn.Parse(key) // the authority's own
			mine = append(mine, u)
		}
	}
	x.Days = days
	x.Calendar, err = q.Pages.Calendar(from, from.AddDate(0, 0, days), mine)
	return x, err
}

// sendCalendar sends calendar.json, which is the same for all.
func (q *request) sendCalendar() error {
	q.visitor = nil
	x, err := q.readCalendar(q.now.UTC().Truncate(time.Hour))
	if err != nil {
		return err
	}
	text, err := json.Marshal(x.Calendar)
	if err != nil {
		return err
	}
	return q.send(http.StatusOK, "application/json", append(text, '\n'))
}

// showCalendar shows when components are held.
func (q *request) showCalendar() error {
	x, err := q.readCalendar(q.today())
	if err != nil {
		return err
	}
	x.addTicks()
	x.Now = x.at(x.At)
	v, rows := q.r.URL.Query(), 0
	for k, t := range x.Types {
		number := strconv.Itoa(k + 1)
		r := calendarType{CalendarType: t, ID: "type-" + number, Open: x.link("open", number) + "#type-" + number}
		isChosen := v.Get("open") == number
		r.IsOpen = isChosen || len(t.Components) <= openTypes && rows < openRows
		x.addFree(&r)
		first, _ := strconv.Atoi(v.Get("first"))
		if !isChosen || first < 0 || first >= len(t.Components) {
			first = 0
		}
		for i := first; r.IsOpen && i < len(t.Components) && i < first+calendarRows; i++ {
			r.Components = append(r.Components, calendarRow{t.Components[i].Name, x.bars(&t, &t.Components[i])})
			r.Last = i + 1
		}
		if r.Last > 0 && r.Last < len(t.Components) {
			r.Next = x.link("open", number, "first", strconv.Itoa(r.Last)) + "#" + r.ID
		}
		rows += len(r.Components)
		x.Rows = append(x.Rows, r)
	}
	return q.render(page{Name: "calendar", Title: "Calendar", Tab: "calendar", Body: x})
}

// today returns the midnight at which the day began in UTC.
func (q *request) today() time.Time { return q.now.UTC().Truncate(24 * time.Hour) }

// link returns the URL of the same calendar with other values. An empty value removes the name.
func (x *calendarBody) link(pairs ...string) string {
	v := x.r.URL.Query()
	v.Del("first")
	for i := 0; i < len(pairs); i += 2 {
		if v.Set(pairs[i], pairs[i+1]); pairs[i+1] == "" {
			v.Del(pairs[i])
		}
	}
	return "/ui/calendar?" + v.Encode()
}

// Earlier, Later and Spans return links to other times. Earlier is "" at the present.
func (x *calendarBody) Earlier() string {
	first := x.today()
	switch from := x.From.AddDate(0, 0, -x.Days); {
	case !x.From.After(first):
		return ""
	case !from.After(first):
		return x.link("from", "")
	default:
		return x.link("from", from.Format(inputTime))
	}
}

func (x *calendarBody) Later() string {
	if x.Until.After(x.now.Add(max(x.AheadMax, maxCalendarDays*24*time.Hour))) {
		return ""
	}
	return x.link("from", x.Until.Format(inputTime))
}

func (x *calendarBody) Spans() (list []bar) {
	for _, n := range []int{1, 3, calendarDays, 14, 30} {
		b := bar{Text: display.Count(n, "day"), Href: x.link("days", strconv.Itoa(n))}
		if n == x.Days {
			b.Class = "true"
		}
		list = append(list, b)
	}
	return list
}

// part returns where a time is in the range, from 0 to 1.
func (x *calendarBody) part(t time.Time) float64 {
	return min(1, max(0, float64(t.Sub(x.From))/float64(x.Until.Sub(x.From))))
}

func percent(part float64) string { return strconv.FormatFloat(100*part, 'f', 3, 64) + "%" }

// at returns a coordinate of a picture; "" if the time is not in the range.
func (x *calendarBody) at(t time.Time) string {
	if t.Before(x.From) || !t.Before(x.Until) {
		return ""
	}
	return percent(x.part(t))
}

// addTicks chooses the times on the axis.
func (x *calendarBody) addTicks() {
	x.Step, x.cell = 96, 24*time.Hour
	for _, s := range [][3]int{{16, 48, 24}, {8, 24, 6}, {3, 6, 3}, {1, 2, 1}} {
		if x.Days <= s[0] {
			x.Step, x.cell = s[1], time.Duration(s[2])*time.Hour
		}
	}
	step, major := time.Duration(x.Step)*time.Hour, 3*time.Duration(x.Step)*time.Hour
	switch x.Step { // so that there is room for a date
	case 2:
		major = 8 * time.Hour
	case 6:
		major = 24 * time.Hour
	}
	for t := x.From.Add(step - 1).Truncate(step); t.Before(x.Until); t = t.Add(step) {
		text, href := t.Format("15:04"), ""
		if t.Hour() == 0 {
			text = t.Format("Mon 2 Jan")
			href = x.link("from", t.Format(inputTime), "days", "1")
		}
		if x.part(t) > 0.94 {
			text = "" // it would be cut off
		}
		x.Ticks = append(x.Ticks, tick{x.at(t), text, href, !t.Equal(t.Truncate(major)), x.part(t) >= 0.75})
	}
}

// addFree adds the bars that count what is free of a type.
func (x *calendarBody) addFree(r *calendarType) {
	for i, f := range r.Free {
		until := x.Until
		if i+1 < len(r.Free) {
			until = r.Free[i+1].From
		}
		b := x.newBar(f.From, until)
		if n := len(r.Bars); n > 0 && b.end-r.Bars[n-1].begin < thinnest {
			l := &r.Bars[n-1] // the picture does not show them apart
			l.end, l.W, l.Cells = b.end, percent(b.end-l.begin), nil
			continue
		}
		label := "none"
		b.Class = "none"
		if f.Free > 0 {
			label, b.Class = strconv.Itoa(f.Free), "free"
			b.Cells = x.cells(&r.CalendarType, fmt.Sprintf("%s: %d of %d", r.Name, f.Free, r.Total), f.From, until)
		}
		height := 0.15
		if f.Free > 0 && r.Total > 0 {
			height = 0.25 + 0.75*float64(f.Free)/float64(r.Total)
		}
		b.Y, b.H = percent(1-height), percent(height)
		b.Label = fmt.Sprintf("%s: %s of %d free %s", r.Name, label, r.Total, x.span(f.From, until))
		if b.end-b.begin > 0.025 {
			b.Text = strconv.Itoa(f.Free)
		}
		r.Bars = append(r.Bars, b)
	}
}

// kindTexts say what windows are.
var kindTexts = map[string]string{"held": "in use", "ahead": "reserved", "cleaning": "being cleaned, at most", "maintenance": "maintenance", "drained": "out of service"}

// bars returns the bars of a component: its windows, and the free times between them.
func (x *calendarBody) bars(t *service.CalendarType, c *service.CalendarComponent) (list []bar) {
	gap := func(from, until time.Time) {
		if b := x.newBar(from, until); b.end > b.begin {
			b.Cells, b.Class, b.Label = x.cells(t, c.Name+":", from, until), "gap", fmt.Sprintf("%s: free %s", c.Name, x.span(from, until))
			list = append(list, b)
		}
	}
	free := x.From
	for _, w := range c.Windows {
		from, until := w.From, w.Until
		if from.Before(x.From) {
			from = x.From
		}
		if until.IsZero() || until.After(x.Until) {
			until = x.Until
		}
		b := x.newBar(from, until)
		if n := len(list); n > 0 && w.Mine.IsZero() && b.end-b.begin < thinnest && b.begin-list[n-1].end < thinnest && list[n-1].Class == w.Kind {
			l := &list[n-1] // the picture does not show them apart
			l.end, l.W, l.Label = b.end, percent(b.end-l.begin), c.Name+": "+kindTexts[w.Kind]+", several times"
			free = until
			continue
		}
		gap(free, from)
		free = until
		b.Class, b.Label = w.Kind, fmt.Sprintf("%s: %s %s", c.Name, kindTexts[w.Kind], x.span(w.From, w.Until))
		if w.Free > 0 {
			b.Text, b.Label = fmt.Sprintf("%d free", w.Free), fmt.Sprintf("%s, %d free", b.Label, w.Free)
			b.Class, b.Cells = "part "+w.Kind, x.cells(t, fmt.Sprintf("%s: %d", c.Name, w.Free), from, until)
		}
		if !w.Mine.IsZero() {
			b.Class, b.Text, b.Label, b.Href, b.Cells = "mine "+w.Kind, w.Mine.Name, w.Mine.Name+" on "+b.Label, x.experimentPath(w.Mine), nil
		}
		list = append(list, b)
	}
	gap(free, x.Until)
	return list
}

// newBar returns a bar from one time until another one, as high as the row.
func (x *calendarBody) newBar(from, until time.Time) bar {
	b := bar{begin: x.part(from), end: x.part(until), Y: "0", H: "100%"}
	b.X, b.W = percent(b.begin), percent(b.end-b.begin)
	if b.TextX = b.X; !from.After(x.At) && until.After(x.At) { // beside the line
		b.TextX = percent(x.part(x.At))
	}
	return b
}

// span writes a time of a window.
func (x *calendarBody) span(from, until time.Time) (text string) {
	if from.After(x.now) {
		text = "from " + inUTC(from) + " "
	}
	if until.IsZero() {
		return text + "without a known end"
	}
	return text + "until " + inUTC(until)
}

// cells cuts a free time into links, so that a click chooses when an experiment begins. what is the beginning of their labels.
func (x *calendarBody) cells(t *service.CalendarType, what string, from, until time.Time) (list []bar) {
	for from = am.LaterOf(from, x.now); from.Before(until); {
		next := from.Truncate(x.cell).Add(x.cell)
		if next.After(until) {
			next = until
		}
		if href := x.startLink(t, from, until); href != "" {
			b := x.newBar(from, next)
			b.Href, b.Label = href, fmt.Sprintf("%s free %s", what, x.span(from, until))
			list = append(list, b)
		}
		from = next
	}
	return list
}

// startLink returns the URL of the form that starts an experiment in a free time; "" if it is too short, nothing can begin then, or the
// visitor is an operator, who starts nothing. It has an end only if the usual lease does not fit.
func (x *calendarBody) startLink(t *service.CalendarType, from, until time.Time) string {
	start, v := from.Add(time.Minute-1).Truncate(time.Minute), url.Values{"type": {t.Name}}
	if len(t.Hardware) > 0 {
		v.Set("hardware", t.Hardware[0])
	}
	if x.AheadStep > 0 {
		start = from.Add(x.AheadStep - 1).Truncate(x.AheadStep)
	}
	isAhead := start.After(x.now)
	if !isAhead {
		start = x.now
	} else {
		v.Set("begin", start.Format(inputTime))
	}
	if x.isOperator() || x.Lockdown != "" || isAhead && start.After(x.now.Add(x.AheadMax)) || until.Sub(start) < minGap {
		return ""
	}
	if until.Before(x.Until) && start.Add(x.Lease).After(until) {
		v.Set("end", until.Truncate(time.Minute).UTC().Format(inputTime))
	}
	return "/ui/start?" + v.Encode()
}

// experimentPath returns the path of the page about a slice of the authority.
func (q *request) experimentPath(slice urn.URN) string {
	project := strings.TrimPrefix(strings.TrimPrefix(slice.Authority, q.Authority.URN().Authority), ":")
	return sliceRecord{URN: slice, Project: urn.URN{Name: project}}.Path()
}
