package operator

import (
	"encoding/json"
	"testing"
	"time"
	_ "time/tzdata"

	"patchbay/am/site/operate"
)

// TestChart compares a calendar with its text. Its columns and days follow the clock of the zone, also when it changes.
func TestChart(t *testing.T) {
	brussels, err := time.LoadLocation("Europe/Brussels")
	if err != nil {
		t.Fatal(err)
	}
	row := func(text string) *operate.CalendarRow {
		var r operate.CalendarRow
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		return &r
	}
	from := time.Date(2026, 10, 24, 9, 10, 0, 0, brussels)
	x := newChart(from, from.AddDate(0, 0, 4), from.Add(5*time.Hour), 8, 80)
	x.axis(4)
	x.row("pc1", row(`{"windows":[{"state":"held","until":"2026-10-24T12:00:00Z"},{"state":"cleaning","from":"2026-10-24T12:00:00Z","until":"2026-10-24T13:00:00Z"},{"state":"ahead","from":"2026-10-25T08:00:00Z","until":"2026-10-25T16:00:00Z"},{"state":"ahead","from":"2026-10-26T08:00:00Z","until":"2026-10-26T16:00:00Z","mine":"urn:publicid:IDN+a+slice+s"}]}`))
	x.row("pc2", row(`{"windows":[{"state":"drained"}]}`))
	x.row("h1", row(`{"windows":[{"state":"held","until":"2026-10-25T00:00:00Z","free":12},{"state":"maintenance","from":"2026-10-27T00:00:00Z","until":"2026-10-28T00:00:00Z"}]}`))
	x.row("free", row(`{"windows":[{"state":"held","until":"2026-10-25T00:00:00Z"}]}`), row(`{"windows":[]}`), row(`{"windows":[]}`))
	want := `From 2026-10-24 08:00 CEST (2026-10-24T06:00:00Z) for 4 days; a column is 2h.

         Sat 24  Sun 25       Mon 26      Tue 27      Wed 28
            | now
pc1      ###~.........++++........MMMM.....................
pc2      xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
h1       999999999........................xxxxxxxxxxxx.....
free     666666666.........................................

. free, x out of service, # in use, + reserved, ~ being cleaned, M marked
digit: how many slivers still fit, up to 9; in a row "free": the free components, in tenths
`
	got := x.text.String() + x.legend()
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
