package site

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// backupDoor hands out the store, to one at a time.
type backupDoor struct {
	site *Site
	// part is how long one part of a backup may take to be read by who asked for it,
	// whole how long all of it: meanwhile nothing of the file is used again, and it
	// grows.
	part, whole time.Duration
	// wait is how long one waits for the one before: its reader has all of it a moment
	// before the door is free.
	wait time.Duration
	busy chan struct{}
}

func (s *Site) backupDoor() http.Handler {
	return &backupDoor{site: s, part: 30 * time.Second, whole: 10 * time.Minute, wait: 2 * time.Second, busy: make(chan struct{}, 1)}
}

func (d *backupDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case d.busy <- struct{}{}:
		defer func() { <-d.busy }()
	case <-time.After(d.wait):
		http.Error(w, "another backup is being made; try again later", http.StatusUnprocessableEntity)
		return
	case <-r.Context().Done():
		return
	}
	out := &unhurried{ResponseWriter: w, control: http.NewResponseController(w), part: d.part, end: time.Now().Add(d.whole)}
	begun := false
	err := d.site.store.Backup(out, func(size int64) {
		begun = true
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	})
	switch {
	case err == nil:
		d.site.log.Info("a backup was made", "state", d.site.config.State)
	case begun: // what it asked for breaks off, which it sees
		d.site.log.Warn("a backup was not read to its end", "state", d.site.config.State, "error", err)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// unhurried is an answer that may take long, as long as it is read.
type unhurried struct {
	http.ResponseWriter
	control *http.ResponseController
	part    time.Duration
	end     time.Time
}

func (p *unhurried) Write(b []byte) (int, error) {
	until := time.Now().Add(p.part)
	if until.After(p.end) {
		until = p.end
	}
	if err := p.control.SetWriteDeadline(until); err != nil {
		return 0, err
	}
	return p.ResponseWriter.Write(b)
}

// tellStore answers what a look at the whole store finds.
func (s *Site) tellStore(w http.ResponseWriter, _ *http.Request) {
	report, err := s.store.Check()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(report) // who asked may have left
}
