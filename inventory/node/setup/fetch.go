package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/rspec/step"
)

const (
	installTime = 10 * time.Minute
	maxFetch    = 4 << 30 // bytes
)

func retryPauses() []time.Duration {
	return []time.Duration{time.Second, 3 * time.Second, 9 * time.Second}
}

// fetch writes the content of a URL to the empty file f, and returns its size. It calls report with the
// progress, and retries after temporary errors. It refuses content that does not fit on the disk.
func (c *client) fetch(ctx context.Context, rawURL string, f *os.File, report func(string)) (size int64, err error) {
	room, err := freeSpace(f)
	if err != nil {
		return 0, err
	}
	most := min(room, maxFetch)
	if isData(rawURL) {
		b, err := dataContent(rawURL)
		if err == nil && int64(len(b)) > most {
			err = tooLarge(most)
		}
		if err == nil {
			_, err = f.Write(b)
		}
		return int64(len(b)), err
	}
	if _, sum, ok := step.DeliveredFile(rawURL); ok {
		return c.delivered.copyDelivered(sum, f, most)
	}
	for attempt := 0; ; attempt++ {
		size, err = c.fetchOnce(ctx, rawURL, f, most, report)
		_, canRetry := errors.AsType[*temporaryError](err)
		if !canRetry || attempt == len(c.retryPauses) || ctx.Err() != nil {
			break
		}
		c.note("%v; retrying in %v", err, c.retryPauses[attempt])
		select {
		case <-time.After(c.retryPauses[attempt]):
		case <-ctx.Done():
		}
	}
	if err != nil && ctx.Err() != nil {
		return 0, fmt.Errorf("it was not fetched within %v: %w", installTime, err)
	}
	return size, err
}

// fetchOnce replaces the content of f by that of a URL. It refuses content of more than maxSize bytes. It
// fails with a temporaryError if another attempt may succeed.
func (c *client) fetchOnce(ctx context.Context, rawURL string, f *os.File, maxSize int64, report func(string)) (int64, error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return 0, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	if err := f.Truncate(0); err != nil {
		return 0, err
	}
	response, err := c.get(ctx, u)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.ContentLength > maxSize {
		return 0, tooLarge(maxSize)
	}
	size, err := io.Copy(f, &progressReader{r: io.LimitReader(response.Body, maxSize+1), length: response.ContentLength, report: report})
	switch {
	case errors.Is(err, unix.ENOSPC):
		return 0, err
	case err != nil && !isTemporary(err):
		return 0, fmt.Errorf("%s ends after %d bytes: %w", displayURL(rawURL), size, err)
	case err != nil:
		return 0, &temporaryError{fmt.Errorf("%s breaks off after %d bytes: %w", displayURL(rawURL), size, err)}
	case size > maxSize:
		return 0, tooLarge(maxSize)
	}
	return size, nil
}

// tooLarge expects maxFetch or the free space as maxSize.
func tooLarge(maxSize int64) error {
	if maxSize == maxFetch {
		return fmt.Errorf("it has more than the maximum of %d bytes", maxSize)
	}
	return fmt.Errorf("it has more than the %d bytes that are free on the disk of the node", maxSize)
}

// freeSpace returns the free space of f's file system, in bytes.
func freeSpace(f *os.File) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return 0, err
	}
	return roomOf(&st), nil
}

// freeSpaceAt returns the free space of the file system on which path is or would be.
func freeSpaceAt(path string) (int64, error) {
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	for ; err == unix.ENOENT && path != "/"; err = unix.Statfs(path, &st) {
		path = filepath.Dir(path)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return roomOf(&st), nil
}

func roomOf(st *unix.Statfs_t) int64 { return int64(min(st.Bavail, 1<<40)) * st.Bsize }

type progressReader struct {
	r            io.Reader
	done, length int64
	reportedAt   time.Time
	report       func(string)
}

// Read also reports the progress at intervals: in per cent if the length is known, otherwise
// in MB.
func (w *progressReader) Read(b []byte) (int, error) {
	n, err := w.r.Read(b)
	w.done += int64(n)
	if now := time.Now(); now.Sub(w.reportedAt) > progressInterval {
		w.reportedAt = now
		if w.length > 0 {
			w.report(fmt.Sprintf("%d %%", w.done*100/w.length))
		} else {
			w.report(fmt.Sprintf("%d MB", w.done>>20))
		}
	}
	return n, err
}
