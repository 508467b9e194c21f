/** Plain files of employees of any size. */
import { writeFile } from "node:fs/promises";

const INTERESTS = ["chess", "hiking|coffee", "jazz;books", "cuisine", "fotografía|yoga", "茶"];
const DEPARTMENTS = ["Sales", "Engineering", "Finance", "Legal"];

/** Writes `rows` employees, all of whom are accepted. */
export function writeEmployees(path: string, rows: number): Promise<void> {
  const lines = ["employee_id,full_name,email,department,interests,budget"];
  for (let row = 1; row <= rows; row += 1) {
    lines.push(
      `E-${row},Person ${row},person${row}@example.com,${DEPARTMENTS[row % 4]},${INTERESTS[row % 6]},${20 + (row % 80)}`,
    );
  }
  return writeFile(path, `${lines.join("\n")}\n`);
}
