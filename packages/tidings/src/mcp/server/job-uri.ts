/** The address of a job among the resources: `job://{jobId}`. */
const JOB_URI = /^job:\/\/([^/?#]+)$/;

/** The job of a URI `job://{jobId}`; undefined for every other URI. */
export function jobIdOf(uri: string): string | undefined {
  return JOB_URI.exec(uri)?.[1];
}

export function jobUriOf(jobId: string): string {
  return `job://${jobId}`;
}
