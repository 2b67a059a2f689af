package site

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"

	"patchbay/am/audit"
	"patchbay/am/fileowner"
	"patchbay/am/operate"
	"patchbay/inventory/local/fdsocket"
)

// SocketName is the socket, beside the configuration, by which providers ask
// a served site for manifests.
const SocketName = "admin.sock"

// adminSocket is a listening socket that only its owner and root can reach: by
// its mode, and by a look at who comes, since modes are changed by mistake.
type adminSocket struct {
	*net.UnixListener
	path   string
	info   fs.FileInfo // of path, as long as it is ours
	log    *slog.Logger
	quiet  time.Time // until when nothing is said of those who are sent away; Accept's
	turned int       // of whom nothing was said yet; Accept's
}

// quietTime is how often at most the log tells of users who are sent away.
const quietTime = time.Minute

// listenSocket listens at path, in place of what a server that is gone has
// left there. It takes nothing from one that still answers, and nothing that is
// no socket.
func listenSocket(path string, log *slog.Logger) (s *adminSocket, err error) {
	err = fileowner.As(filepath.Dir(path), func() (err error) { s, err = makeSocket(path, log); return err })
	return s, err
}

func makeSocket(path string, log *slog.Logger) (*adminSocket, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("%s is there and no socket; move it away", path)
	}
	if somebodyAt(path) {
		return nil, fmt.Errorf("another server answers at %s; stop it, or give this site a folder of its own", path)
	}
	if err := os.RemoveAll(path + ".new"); err != nil { // a folder, as earlier versions have left it
		return nil, err
	}
	l, err := fdsocket.Listen(path, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &adminSocket{UnixListener: l, path: path, info: info, log: log}, nil
}

// somebodyAt tells whether a server is at a socket.
func somebodyAt(path string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c, err := fdsocket.Connect(ctx, path)
	if err == nil {
		c.Close()
	}
	return err == nil
}

// served tells whether a server of this very site is at its socket.
func (c *Config) served() bool { return somebodyAt(socketOf(c)) }

// Accept waits for root or the server's own user, and sends all others away.
func (s *adminSocket) Accept() (net.Conn, error) {
	for {
		c, err := s.AcceptUnix()
		if err != nil {
			return nil, err
		}
		user := -1 // not known
		peer, err := fdsocket.Peer(c)
		if err == nil {
			user = int(peer.Uid)
		}
		if user == 0 || user == os.Geteuid() {
			return c, nil
		}
		c.Close()
		s.turned++
		if now := time.Now(); now.After(s.quiet) {
			s.log.Warn("a user may not ask at the socket, only root and the server's own user may; see that its mode is 0600",
				"socket", s.path, "user", user, "times", s.turned, "error", err)
			s.quiet, s.turned = now.Add(quietTime), 0
		}
	}
}

// remove ends the socket, and takes it away if nobody has put another there.
func (s *adminSocket) remove() {
	s.Close()
	if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.info) {
		os.Remove(s.path)
	}
}

// doors are what commands ask a served site at its socket, beside what package
// server answers itself.
func (s *Site) doors() map[string]http.Handler {
	doors := operate.Doors(s.operations)
	for pattern, h := range map[string]http.Handler{
		"GET /time":        http.HandlerFunc(s.tellTime),
		"GET /clock":       http.HandlerFunc(s.tellClock),
		"POST /clock":      http.HandlerFunc(s.believeClock),
		"GET /reload":      http.HandlerFunc(s.answerReload),
		"POST /reload":     http.HandlerFunc(s.answerReload),
		"GET /hooks":       http.HandlerFunc(s.tellHooks),
		"GET /unpromised":  http.HandlerFunc(s.tellUnpromised),
		"POST /unpromised": http.HandlerFunc(s.releaseUnpromised),
		"GET /backup":      s.backupDoor(),
		"GET /check-store": http.HandlerFunc(s.tellStore),
	} {
		doors[pattern] = bare(h)
	}
	if s.config.readOnly {
		for pattern := range doors {
			if strings.HasPrefix(pattern, http.MethodPost) {
				doors[pattern] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					operate.Fail(w, &operate.RefusedError{Text: errReadOnly.Error()})
				})
			}
		}
	}
	return doors
}

// answer writes v as JSON.
func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // who asked may have left
}

// bare is a door whose questions have no query: nothing that is asked is passed over.
func bare(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := operate.NoQuery(r); err != nil {
			operate.Fail(w, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}

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
	answer(w, report)
}

// tellTime answers commands that reckon from now.
func (s *Site) tellTime(w http.ResponseWriter, _ *http.Request) {
	answer(w, timeAnswer{s.clock.Now()})
}

// tellClock answers `patchbay clock`.
func (s *Site) tellClock(w http.ResponseWriter, _ *http.Request) {
	s.answerClock(w, ClockAnswer{Now: s.clock.State()})
}

// believeClock answers `patchbay clock --believe`.
func (s *Site) believeClock(w http.ResponseWriter, r *http.Request) {
	order, ok := readOrder(w, r)
	if !ok {
		return
	}
	var a ClockAnswer
	a.Before, a.Now = s.clock.Believe()
	s.log.Warn("the host's clock is believed by an operator's word", "site", a.Before.Site, "host", a.Before.Host, "operator", order.Operator)
	if err := s.clock.Save(); err != nil {
		s.log.Error("the clock's file was not written", "error", err)
	}
	if a.Doubted() {
		s.noteAct(order.Operator, ClockBelieved, a.Summary())
	}
	s.answerClock(w, a)
	s.runner.Wake()
}

func (s *Site) answerClock(w http.ResponseWriter, a ClockAnswer) {
	if err := a.Count(s.store); err != nil {
		s.log.Error("the clock cannot be told", "error", err)
		http.Error(w, "The clock cannot be told; the log says why.", http.StatusInternalServerError)
		return
	}
	answer(w, a)
}

// Bounds of an order.
const (
	maxSiteOrder = 1 << 10 // bytes
	maxOperator  = 100     // bytes
)

// ServerCommand is what a command says to a served site that is to do something of which
// the audit tells: the site writes that line, for who gave the order may be gone
// before it is done.
type ServerCommand struct {
	Operator string `json:"operator"`
}

// readOrder reads an order. One that would make an odd audit is refused, in an answer;
// then ok is false.
func readOrder(w http.ResponseWriter, r *http.Request) (o ServerCommand, ok bool) {
	err := operate.ReadOrder(w, r, maxSiteOrder, &o)
	switch {
	case err != nil:
	case o.Operator == "":
		err = &operate.RefusedError{Text: "the order does not say who gives it"}
	case len(o.Operator) > maxOperator || strings.ContainsFunc(o.Operator, unicode.IsControl):
		err = &operate.RefusedError{Text: "the name of the operator is longer than 100 bytes, or has control characters"}
	}
	if err != nil {
		operate.Fail(w, err)
	}
	return o, err == nil
}

// noteAct is the same in a served site.
func (s *Site) noteAct(operator, what, text string) {
	_, err := s.operations.Note(context.Background(), operate.Note{Event: what, Text: text, Operator: operator})
	if err != nil {
		s.log.Error("the journal does not tell what an operator did", "what", what, "operator", operator, "error", err)
		s.audit.Act(audit.Act{What: what, Text: text, Operator: operator})
	}
}
