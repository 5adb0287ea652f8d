import {
  type Arg,
  DockerfileParser,
  type From,
  type Instruction,
  type ModifiableInstruction,
  type Property,
} from 'dockerfile-ast';

/** Flags are those of COPY, HEALTHCHECK and the like; other instructions have none. */
type Modifiable = Instruction & Partial<Pick<ModifiableInstruction, 'getFlags'>>;

/** One instruction, its variables filled in. */
export interface Step {
  /** upper case: RUN, COPY, … */
  keyword: string;
  /** what stands behind the keyword and the flags, variables as they are written */
  text: string;
  /** the elements of the exec form; undefined in the shell form */
  exec: string[] | undefined;
  /** `--from=x` as { from: 'x' } */
  flags: Record<string, string>;
  /** of ARG, ENV and LABEL */
  properties: Record<string, string>;
}

/** What comes between a FROM and the next. */
export interface Stage {
  /** after AS; undefined: the last stage, or one that nobody copies from */
  name: string | undefined;
  /** image and tag, variables filled in */
  base: string;
  steps: Step[];
}

/** The stages of a Dockerfile, with `buildArgs` in place of the defaults of its ARGs. */
export function readStages(text: string, buildArgs: Record<string, string> = {}): Stage[] {
  const dockerfile = DockerfileParser.parse(text);
  const globals = new Map<string, string>();
  const stages: Stage[] = [];
  let known = new Map<string, string>();
  for (const instruction of dockerfile.getInstructions()) {
    const keyword = instruction.getKeyword();
    if (keyword === 'FROM') {
      const from = instruction as From;
      stages.push({
        name: from.getBuildStage() ?? undefined,
        base: fill(from.getImage()!, globals),
        steps: [],
      });
      known = new Map();
      continue;
    }
    const properties: Record<string, string> = {};
    for (const property of propertiesOf(keyword, instruction)) {
      const value = fill(property.getValue() ?? '', known);
      const given = keyword === 'ARG' ? (buildArgs[property.getName()] ?? value) : value;
      properties[property.getName()] = given;
      if (keyword === 'ARG' || keyword === 'ENV') known.set(property.getName(), given);
    }
    if (stages.length === 0) for (const [name, value] of known) globals.set(name, value);
    else stages.at(-1)!.steps.push({ keyword, properties, ...contentOf(keyword, instruction as Modifiable) });
  }
  return stages;
}

function propertiesOf(keyword: string, instruction: unknown): Property[] {
  if (keyword === 'ARG') return [(instruction as Arg).getProperty()!];
  if (keyword === 'ENV' || keyword === 'LABEL')
    return (instruction as { getProperties(): Property[] }).getProperties();
  return [];
}

function contentOf(keyword: string, instruction: Modifiable): Pick<Step, 'text' | 'exec' | 'flags'> {
  const flags = (instruction.getFlags?.() ?? []).map((flag) => [flag.getName(), flag.getValue() ?? '']);
  const text = instruction.getRawArgumentsContent() ?? '';
  // a health check's command stands behind CMD
  const command = keyword === 'HEALTHCHECK' ? text.replace(/^CMD\s+/, '') : text;
  return {
    text,
    flags: Object.fromEntries(flags),
    exec: command.startsWith('[') ? JSON.parse(command) : undefined,
  };
}

function fill(text: string, variables: Map<string, string>): string {
  return text.replace(/\$\{(\w+)\}|\$(\w+)/g, (_, braced, bare) => variables.get(braced ?? bare) ?? '');
}
