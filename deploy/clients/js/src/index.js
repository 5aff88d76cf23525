export * from "./browser.js";
export { Worker, workerName } from "./worker.js";
