package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// room is how much the archives of one chart may unpack to, together: an archive may hold archives.
type room struct {
	bytes   int64
	entries int
}

func newRoom() room { return room{bytes: 100 << 20, entries: 10_000} }

const (
	// steepest is how much larger than its packed size a file tree may become, once it is larger than freely.
	steepest = 1_000
	freely   = 1 << 20
)

// unpack reads a packed chart: gzip, tar, and everything in one folder, which is left out of the names.
func (r *room) unpack(packed []byte) (map[string][]byte, error) {
	source := bytes.NewReader(packed)
	unzipped, err := gzip.NewReader(source)
	if err != nil {
		return nil, errors.New("it is no gzip archive")
	}
	before := r.bytes
	files := map[string][]byte{}
	for entries := tar.NewReader(unzipped); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("it is damaged or cut off: %w", err)
		}
		if err := r.take(header, entries, files); err != nil {
			return nil, err
		}
		if used := before - r.bytes; used > freely && used > steepest*int64(len(packed)) {
			return nil, fmt.Errorf("it unpacks to more than %d times its size", steepest)
		}
	}
	if len(files) == 0 {
		return nil, errors.New("it holds no files")
	}
	return files, onlyPadding(unzipped)
}

// take reads one entry into files.
func (r *room) take(header *tar.Header, content io.Reader, files map[string][]byte) error {
	if r.entries--; r.entries < 0 {
		return errors.New("it holds more than 10,000 entries")
	}
	switch header.Typeflag {
	case tar.TypeXGlobalHeader, tar.TypeDir:
		return nil
	case tar.TypeReg:
	default:
		return fmt.Errorf("%q is neither a file nor a folder", header.Name)
	}
	name, err := inside(header.Name)
	if err != nil {
		return err
	}
	if _, isThere := files[name]; isThere {
		return fmt.Errorf("%q appears twice", header.Name)
	}
	if header.Size > largestFile {
		return fmt.Errorf("%q is larger than %d MiB", header.Name, largestFile>>20)
	}
	if r.bytes -= header.Size; r.bytes < 0 {
		return errors.New("it unpacks to more than 100 MiB")
	}
	data, err := io.ReadAll(content)
	if err != nil {
		return fmt.Errorf("%q is damaged or cut off: %w", header.Name, err)
	}
	files[name] = data
	return nil
}

// inside is the name of an entry without the folder that a packed chart begins with.
func inside(name string) (string, error) {
	slashes := strings.ReplaceAll(name, "\\", "/")
	if path.IsAbs(slashes) || strings.Contains(slashes, ":/") || strings.ContainsRune(slashes, 0) {
		return "", fmt.Errorf("%q is no path inside the chart", name)
	}
	for part := range strings.SplitSeq(slashes, "/") {
		if part == ".." {
			return "", fmt.Errorf("%q leads out of the chart", name)
		}
	}
	_, rest, hasFolder := strings.Cut(path.Clean(slashes), "/")
	if !hasFolder {
		return "", fmt.Errorf("%q lies outside of the folder of the chart", name)
	}
	return rest, nil
}

// onlyPadding checks that nothing but zeros follows the last entry.
func onlyPadding(rest io.Reader) error {
	buffer := make([]byte, 32<<10)
	for left := 1 << 20; left > 0; {
		count, err := rest.Read(buffer)
		if len(bytes.Trim(buffer[:count], "\x00")) > 0 {
			break
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("it is damaged or cut off: %w", err)
		}
		left -= count
	}
	return errors.New("something follows its end")
}
