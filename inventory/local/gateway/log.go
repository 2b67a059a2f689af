package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"
)

// maxLines is how many lines a second of the gateway's are logged.
const maxLines = 50

// retell logs what the gateway writes to its standard error: JSON records, or
// the text of a panic.
func (k *Keeper) retell(f *os.File) {
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 0, 4<<10), 64<<10)
	second, n := time.Now(), 0
	for lines.Scan() {
		if time.Since(second) > time.Second {
			second, n = time.Now(), 0
		}
		if n++; n <= maxLines {
			k.retellLine(lines.Bytes())
		}
	}
}

func (k *Keeper) retellLine(line []byte) {
	var record map[string]any
	if json.Unmarshal(line, &record) != nil {
		k.o.Log.Error("gateway: " + string(line))
		return
	}
	var level slog.Level
	text, _ := record[slog.LevelKey].(string)
	if level.UnmarshalText([]byte(text)) != nil {
		level = slog.LevelInfo
	}
	message, _ := record[slog.MessageKey].(string)
	delete(record, slog.LevelKey)
	delete(record, slog.MessageKey)
	delete(record, slog.TimeKey)
	var attrs []any
	for _, name := range slices.Sorted(maps.Keys(record)) {
		attrs = append(attrs, name, record[name])
	}
	k.o.Log.Log(context.Background(), level, "gateway: "+message, attrs...)
}

// seldom is true once a second: how often something fails is up to users. The
// zero value is ready.
type seldom struct {
	mu   sync.Mutex
	last time.Time
}

func (s *seldom) may() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.last) < time.Second {
		return false
	}
	s.last = time.Now()
	return true
}

// stderrLog is the gateway's own log, which the Keeper retells.
func stderrLog() *slog.Logger {
	return slog.New(slog.NewJSONHandler(os.Stderr, nil))
}
