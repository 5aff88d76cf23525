package queue

import (
	"context"
	"database/sql"
	"iter"
)

const exportRows = 32 // of a step: payloads may be large

// Export yields every job with its payload and its runs, by id. It reads in
// small steps beside all that goes on: a job that is there from beginning to
// end comes once, as it was at one moment, and those moments differ. After an
// error, which is yielded with an empty Job, it ends.
//
// Errors: ErrClosed, ctx.Err().
func (q *Reader) Export(ctx context.Context) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		for after := int64(0); ; {
			jobs, err := q.exportStep(ctx, after)
			if err != nil {
				yield(Job{}, err)
				return
			}
			for _, j := range jobs {
				if !yield(j, nil) {
					return
				}
				after = j.ID
			}
			if len(jobs) < exportRows {
				return
			}
		}
	}
}

func (q *Reader) exportStep(ctx context.Context, after int64) (jobs []Job, err error) {
	err = q.view(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var found []int64
		if err := eachOf(ctx, tx, func(rows *sql.Rows) error {
			var id int64
			err := rows.Scan(&id)
			found = append(found, id)
			return err
		}, "select id from jobs where id > ? order by id limit ?", after, exportRows); err != nil {
			return err
		}
		if jobs, err = jobsByID(ctx, tx, found, true); err != nil {
			return err
		}
		for i := range jobs {
			if jobs[i].Runs, err = runsOf(ctx, tx, jobs[i].ID); err != nil {
				return err
			}
		}
		return nil
	})
	return jobs, err
}
