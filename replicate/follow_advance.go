package replicate

import (
	"context"
	"errors"
	"fmt"

	"github.com/superfly/ltx"
)

// prepare makes sure that there is a copy to write to, of the right database
// and epoch: the one that was served before, else a clone of the one that is
// served, else an empty one.
func (f *Follower) prepare() error {
	lineage, epoch := f.root.Lineage, f.root.Ready
	if f.back != nil && !f.back.at(lineage, epoch) {
		f.log.Info("the root has another epoch; making a new copy", "epoch", epoch, "before", f.back.state.Epoch)
		if err := f.back.remove(); err != nil {
			return err
		}
		f.back = nil
	}
	if f.back != nil {
		f.back.state.Root, f.back.step = f.store.url(), f.step
		return nil
	}
	if front := f.served(); front != nil && front.at(lineage, epoch) && !f.reseed {
		c, err := front.clone()
		if err != nil {
			return fmt.Errorf("clone the copy: %w", err)
		}
		f.back = c
		return nil
	}
	c, err := newCopy(f.opts.Dir, lineage, epoch)
	if err != nil {
		return fmt.Errorf("begin a copy: %w", err)
	}
	c.state.Root, c.step = f.store.url(), f.step
	f.back = c
	return nil
}

// advance applies files to the copy, publishes it, and applies them to the one
// that was served before.
func (f *Follower) advance(ctx context.Context, links []*ltx.FileInfo) (more bool, err error) {
	var batch []*fetchedFile
	defer func() {
		for _, file := range batch {
			err = errors.Join(err, file.close())
		}
	}()
	front := f.served()
	twice := front != nil && front.at(f.back.state.Lineage, f.back.state.Epoch)
	f.seeding(links)
	for held := int64(0); len(links) > 0 && held < maxBatch && len(batch) < maxBatchFiles; links = links[1:] {
		file, ferr := f.applyNext(ctx, links[0])
		if err = ferr; err != nil {
			break
		}
		if !twice {
			if err = file.close(); err != nil {
				break
			}
			continue
		}
		held += file.size
		batch = append(batch, file)
	}
	if errors.Is(err, errUnusable) {
		f.reseed = true
		err = errors.Join(err, f.discard())
	}
	return len(links) > 0, errors.Join(err, f.publish(ctx, batch))
}

// applyNext fetches a file and applies it.
func (f *Follower) applyNext(ctx context.Context, info *ltx.FileInfo) (*fetchedFile, error) {
	file, err := fetchFile(ctx, f.prefix.client, info, f.opts.Dir)
	if errors.Is(err, errBadFile) {
		f.prefix.damaged(info)
	}
	if err != nil {
		return nil, err
	}
	if err := f.back.apply(file); err != nil {
		return nil, errors.Join(err, file.close())
	}
	return file, nil
}

// discard drops the copy that is written.
func (f *Follower) discard() error {
	c := f.back
	f.back = nil
	return c.remove()
}
