package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"holdfast/node/client"
)

// A producer adds a job once, however often it runs.
func ExampleClient_Enqueue() {
	c, err := client.New("http://127.0.0.1:7780", client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	jobs, err := c.Enqueue(context.Background(), client.Spec{
		Queue:          "mail",
		Type:           "welcome",
		Payload:        json.RawMessage(`{"to":"a@example.com"}`),
		IdempotencyKey: "user:42:welcome",
	})
	switch {
	case errors.Is(err, client.ErrIdempotencyConflict):
		log.Fatal("another job has this key")
	case err != nil:
		log.Fatal(err)
	}
	fmt.Println(jobs[0].ID, jobs[0].State, jobs[0].Duplicate)
}

// A worker sends mail until the process is interrupted.
func ExampleNewWorker() {
	c, err := client.New("http://127.0.0.1:7780", client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	welcome := func(ctx context.Context, job client.Claimed) (any, error) {
		var mail struct{ To string }
		if err := json.Unmarshal(job.Payload, &mail); err != nil {
			return nil, client.Fatal(err) // it will not get better
		}
		if busy := mail.To == ""; busy {
			return nil, client.Later(time.Minute, errors.New("the mail server is busy"))
		}
		return map[string]bool{"sent": true}, ctx.Err()
	}
	worker, err := client.NewWorker(c, client.WorkerOptions{
		Queues:      []string{"mail"},
		Handlers:    map[string]client.Handler{"welcome": welcome},
		Concurrency: 10,
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := worker.Run(ctx); err != nil {
		log.Print(err)
	}
}
