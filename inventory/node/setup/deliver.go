package setup

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"patchbay/rspec/step"
)

// deliver takes a file for step n, as DeliverArgs describes.
func deliver(f folders, n int, in io.Reader) error {
	s, err := f.open(n)
	if err != nil {
		return err
	}
	r := Report{State: Done}
	if err := s.takeDelivered(in); err != nil {
		if errors.Is(err, unix.ENOSPC) {
			err = fmt.Errorf("the disk of the node is full: %w", err)
		}
		r = Report{State: Failed, Exit: 1, Message: fmt.Sprintf("a file of the site's catalogue cannot be delivered: %v", err)}
	}
	return sendReport(r)
}

func (s *stepFiles) deliveredPath(sum string) string { return s.path(sum + ".delivered") }

// takeDelivered saves the file that in contains after its digest. It fails if the content does not match.
func (s *stepFiles) takeDelivered(in io.Reader) error {
	sum := make([]byte, 2*sha256.Size)
	if _, err := io.ReadFull(in, sum); err != nil {
		return err
	}
	if !step.IsSum(string(sum)) { // it becomes a file name
		return errors.New("its digest is not hexadecimal")
	}
	f, err := os.CreateTemp(s.services, "delivery-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // of an incomplete file
	defer f.Close()
	h := sha256.New()
	size, err := io.Copy(io.MultiWriter(f, h), io.LimitReader(in, maxFetch+1))
	switch {
	case err != nil:
		return err
	case size > maxFetch:
		return tooLarge(maxFetch)
	case fmt.Sprintf("%x", h.Sum(nil)) != string(sum):
		return errors.New("its content was not transferred completely")
	}
	return os.Rename(f.Name(), s.deliveredPath(string(sum)))
}

// copyDelivered copies a delivered file to f. If it has more than maxSize bytes, it fails.
func (s *stepFiles) copyDelivered(sum string, f *os.File, maxSize int64) (int64, error) {
	from, err := os.OpenFile(s.deliveredPath(sum), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, errors.New("the site has not delivered the file")
	}
	if err != nil {
		return 0, err
	}
	defer from.Close()
	h := sha256.New()
	size, err := io.Copy(io.MultiWriter(f, h), io.LimitReader(from, maxSize+1))
	switch {
	case err != nil:
		return 0, err
	case size > maxSize:
		return 0, tooLarge(maxSize)
	case fmt.Sprintf("%x", h.Sum(nil)) != sum:
		return 0, errors.New("the delivered file was changed in the node")
	}
	return size, nil
}

// removeDelivered removes the files that were delivered for the step.
func (s *stepFiles) removeDelivered(urls []*string) {
	for _, url := range urls {
		if _, sum, ok := step.DeliveredFile(*url); ok {
			_ = os.Remove(s.deliveredPath(sum)) // at worst, it takes space
		}
	}
}
